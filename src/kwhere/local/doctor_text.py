"""What doctor says to a person: one line per check, and under it why, what would mend it and what that risks."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from kwhere.local.doctor import Check, CheckState, Remedy
from kwhere.reports.plain_text import visible, visible_lines

PLAIN = dict.fromkeys(CheckState, "")
COLOURS = {
    CheckState.OK: "\033[32m",
    CheckState.WARNING: "\033[33m",
    CheckState.MISSING: "\033[2m",
    CheckState.FAILED: "\033[1;31m",
}
_RESET = "\033[0m"
_STATE_WIDTH = 9
_INDENT = " " * 4
_LABEL_WIDTH = 6


def report(checks: Sequence[Check], width: int, *, colour: bool = False) -> list[str]:
    """Return the lines for a terminal of `width` columns."""
    lines: list[str] = []
    name_width = max((len(_name(check)) for check in checks), default=0)
    for section, group in groupby(checks, key=lambda check: check.section):
        lines += ["", section] if lines else [section]
        for check in group:
            lines += _check(check, name_width, width, COLOURS if colour else PLAIN)
    return [*lines, "", *textwrap.wrap(summary(checks), width)]


def summary(checks: Sequence[Check]) -> str:
    """Return the last line: how many checks found what."""
    counts = {state: sum(check.state is state for check in checks) for state in CheckState}
    to_fix = counts[CheckState.FAILED] + counts[CheckState.WARNING]
    if not to_fix:
        return f"Nothing to fix: {counts[CheckState.OK]} ok, {counts[CheckState.MISSING]} not here."
    return (
        f"{to_fix} to look at: {counts[CheckState.FAILED]} failed, {counts[CheckState.WARNING]} with a warning;"
        f" {counts[CheckState.OK]} ok, {counts[CheckState.MISSING]} not here."
    )


def _check(check: Check, name_width: int, width: int, colours: Mapping[CheckState, str]) -> Iterator[str]:
    head = f"  {check.state.value.ljust(_STATE_WIDTH)}{_name(check).ljust(name_width)}  "
    first, *rest = textwrap.wrap(
        visible_lines(check.found), max(24, width - len(head)), break_on_hyphens=False, break_long_words=False
    ) or [""]
    state = check.state.value.ljust(_STATE_WIDTH)
    colour = colours[check.state]
    yield f"  {colour}{state}{_RESET if colour else ''}{_name(check).ljust(name_width)}  {first}".rstrip()
    for line in rest:
        yield " " * len(head) + line
    yield from _wrapped(check.why, width)
    for remedy in check.remedies:
        yield from _remedy(remedy, width)


def _remedy(remedy: Remedy, width: int) -> Iterator[str]:
    if remedy.title:
        yield f"{_INDENT}{remedy.title[0].upper()}{remedy.title[1:]}:"
    yield from _labelled("fix", remedy.command, width)
    if remedy.undo:
        yield from _labelled("undo", remedy.undo, width)
    if remedy.risk:
        yield from _wrapped(f"risk  {remedy.risk}", width, " " * _LABEL_WIDTH)


def _labelled(label: str, command: str, width: int) -> Iterator[str]:
    first, *rest = wrap_command(command, width - len(_INDENT) - _LABEL_WIDTH)
    yield f"{_INDENT}{label.ljust(_LABEL_WIDTH)}{first}"
    for line in rest:
        yield f"{_INDENT}{' ' * _LABEL_WIDTH}{line}"


def wrap_command(command: str, width: int) -> list[str]:
    """Return a shell command in lines of at most `width` columns where it may be broken, ready to be pasted.

    It is broken after `&&` and `|` if that will do, which needs no backslash.
    """
    lines: list[str] = []
    for clause in _clauses(shell_words(command)):
        joined = f"{lines[-1]} {' '.join(clause)}" if lines else ""
        if lines and len(joined) <= width:
            lines[-1] = joined
        else:
            lines += _wrap_clause(clause, "  " if lines else "", width)
    return lines or [""]


def _clauses(words: Sequence[str]) -> Iterator[list[str]]:
    clause: list[str] = []
    for word in words:
        clause.append(word)
        if word in ("&&", "|"):
            yield clause
            clause = []
    if clause:
        yield clause


def _wrap_clause(words: Sequence[str], indent: str, width: int) -> list[str]:
    lines = [f"{indent}{words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width - 2:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {word}")
    return lines


def shell_words(command: str) -> list[str]:
    """Return the pieces of a command between blanks that no quotes hold together, quotes kept."""
    words: list[str] = []
    word, quote = "", ""
    for character in command:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == " ":
            words.append(word)
            word = ""
            continue
        word += character
    return [piece for piece in [*words, word] if piece]


def _wrapped(text: str, width: int, further: str = "") -> list[str]:
    return textwrap.wrap(
        visible_lines(text),
        width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + further,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _name(check: Check) -> str:
    return visible(check.name.replace("_", " "))
