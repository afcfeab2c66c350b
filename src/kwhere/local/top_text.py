"""The view of `kwhere top` as lines of text. Pure: no terminal is asked anything."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from kwhere.core.terms import Component, Method
from kwhere.local.top_choice import Choice, chosen_rows
from kwhere.local.top_history import TopRow, TopView
from kwhere.local.top_table import Table, fitted
from kwhere.reports.figures import NO_DATA, POWER, duration, quantity, significant

KEYS = ("q quit", "? help", "p power", "e energy", "c CPUs", "m memory", "n name", "r reverse", "/ filter")
HELP = (
    "p e c g m n sort by power, energy, CPUs, GPUs, memory, name",
    "r           reverse the order",
    "/           filter by manager, user or name; Enter keeps it, Esc drops it",
    "t           energy since this view began, or since the unit or its agent began",
    "arrows      scroll; Space and PgUp/PgDn by ten",
    "? or h      this help",
    "q           quit",
)
_METHODS = {
    Method.COUNTER: "measured",
    Method.INTEGRATED: "measured",
    Method.HYPERVISOR: "told by the hypervisor",
    Method.MODELLED: "estimated",
}
_QUIET = "bright_black"


@dataclass(frozen=True, slots=True)
class TopHead:
    """What the first line says beside the view."""

    node: str
    clock: str
    """Time of day."""
    source: str
    """Where figures come from: the agent, or this process itself."""
    trouble: str = ""
    """Why the figures are not of this moment; empty where they are."""


def render(view: TopView, choice: Choice, head: TopHead, width: int, height: int | None = None) -> list[Text]:
    """Return lines of at most `width` columns, and exactly `height` of them where it is given: head, table, keys."""
    rows = chosen_rows(view.rows, choice)
    header = list(_header(view, choice, head, len(rows), width))
    if height is None:
        return [*header, *_table(rows, view, choice, width)]
    space = max(0, height - len(header) - 1)
    body = [_line(text, width) for text in HELP] if choice.help else _table(rows, view, choice, width, space)
    body = body[:space] + [Text("")] * (space - len(body))
    return [*header, *body, _foot(choice, width)][:height]


def _header(view: TopView, choice: Choice, head: TopHead, count: int, width: int) -> Iterator[Text]:
    units = f"{count} of {len(view.rows)}" if count != len(view.rows) else f"{len(view.rows)}"
    left = f"kwhere top  {head.node}  {units} unit{'' if units == '1' else 's'}"
    energy = "energy since each began" if choice.totals else f"energy of {duration(view.seconds)}"
    ends = (f"{head.source}, {energy}  {head.clock}", f"{energy}  {head.clock}", head.clock)
    yield _spread(left, ends, width, "bold")
    if head.trouble:
        yield _line(f"These figures are old: {head.trouble}", width, "red")
    if view.sees_all:
        watts = "  ".join(_component(component, view) for component in Component)
        yield _spread(f"{quantity(view.node_watts, POWER)} now:  {watts}", (_quality(view),), width, "")
    else:
        yield _line("Your own units alone: the agent shows all to root. --own measures by itself.", width)
    if choice.filter and choice.typing is None:
        yield _line(f"filter: {choice.filter}  (Esc drops it)", width)


def _component(component: Component, view: TopView) -> str:
    watts = view.component_watts.get(component)
    mark = "~" if view.methods.get(component) is Method.MODELLED else ""
    return f"{component} {NO_DATA if watts is None else mark + significant(watts)}"


def _quality(view: TopView) -> str:
    """Return how the figures came about: one word where all are of one kind, else what the mark means."""
    words = {_METHODS[method] for component, method in view.methods.items() if component in view.component_watts}
    if not words:
        return "measuring …" if view.node_watts is None else ""
    return words.pop() if len(words) == 1 else "~ estimated"


def _table(rows: Sequence[TopRow], view: TopView, choice: Choice, width: int, space: int | None = None) -> list[Text]:
    """Return the table; in `space` lines the part scrolled to, and always what belongs to no unit."""
    shown: Sequence[TopRow] = rows
    if space is not None:
        room = max(1, space - 1 - len(view.rest))
        offset = min(choice.offset, max(0, len(rows) - room))
        shown = rows[offset : offset + room]
    table = Table.fit(view, choice, width)
    lines = [table.head(choice), *table.lines(shown, view.rest)]
    if not view.rows:
        nobody = "No unit is alive; all work of the node is `system`." if view.sees_all else "You have no unit alive."
        lines.append(_line(nobody, width))
    elif not rows:
        lines.append(_line("No unit matches the filter.", width))
    return lines


def _foot(choice: Choice, width: int) -> Text:
    if choice.typing is not None:
        return _line(f"filter: {choice.typing}▏  Enter keeps it, Esc drops it", width)
    shown = next(text for n in range(len(KEYS), -1, -1) if len(text := "  ".join(KEYS[:n])) <= width)
    return _line(shown, width, _QUIET)


def _spread(left: str, ends: Sequence[str], width: int, style: str) -> Text:
    """Return a line with `left` at one end and the first of `ends` that fits at the other."""
    right = next((end for end in ends if len(left) + 2 + len(end) <= width), "")
    return _line(left + " " * (width - len(left) - len(right)) + right, width, style)


def _line(text: str, width: int, style: str = "") -> Text:
    return fitted(Text(text, style=style, no_wrap=True), width)
