"""`kwhere units`: the list of units, in sacct's manner."""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.streams import color_option, say
from kwhere.cli.unit_absence import Absence, Wanted, unread_managers, why_not, why_nothing
from kwhere.cli.unit_fields import READ, USUAL, help_lines, parse_format
from kwhere.cli.unit_output import Output, Style, write_units
from kwhere.cli.unit_questions import (
    SORT_WORDS,
    WAITING,
    Sort,
    ask_units,
    ask_waiting,
    job_text,
    node_text,
    parse_sort,
    several,
)
from kwhere.cli.unit_values import local_time

READ_AT_ONCE = 20
"""So many a person reads, unless they ask for more."""
ALL = 1_000_000_000
_SEVERAL = ("user", "project", "cluster", "manager", "queue", "node")


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "-j", "--jobs", "jobs", multiple=True, help="Only these ids: 123,123_4,123_[1-3],123+0,100-105; - is stdin"
)
@click.option("-u", "--user", help="Only units of this user, or of several: alice,bob")
@click.option("-a", "--allusers", is_flag=True, help="All that you may see: so it is anyway without -u")
@click.option("-A", "--account", "project", help="Only units of this account (project), or of several")
@click.option("-M", "--cluster", "--clusters", help="Only units of this cluster, or of several; all")
@click.option("-m", "--manager", help="Only units of this manager: slurm, kubernetes, docker, systemd, process, …")
@click.option("-r", "--partition", "--queue", "queue", help="Only units of this partition, queue or namespace")
@click.option("-N", "--node", "--nodelist", "node", help="Only units that ran on this node, or on several: n[1-3]")
@click.option(
    "-s", "--state", help="Only units in these states: running, ended, pending, failed,timeout, … or CD, F, TO"
)
@click.option(
    "-S", "--starttime", "start", help="Units alive after this time: 14:30, today, now-7days, 2026-10-25T02:30"
)
@click.option("-E", "--endtime", "end", help="Units alive before this time")
@click.option("--running", is_flag=True, help="Also those that have not ended, whatever the time")
@click.option("-q", "--query", "q", help="Only units whose id, name or user contains this text")
@click.option("--sort", default="energy", show_default=True, help=f"By {', '.join(SORT_WORDS)}; + is smallest first")
@click.option("--ascending", is_flag=True, help="Smallest first")
@click.option("--limit", type=click.IntRange(min=0), help="So many; 0: all  [20 where a person reads, else all]")
@click.option("-o", "--format", "fields", help="Only these fields: id,name%20,energy_joules; +queue adds one")
@click.option("--helpformat", is_flag=True, help="List the fields with their units and what sacct calls them")
@click.option("-n", "--noheader", is_flag=True, help="Without a line of headers")
@click.option("--no-trunc", is_flag=True, help="Cut nothing, however narrow the terminal is")
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--yaml", "style", flag_value="yaml", help="The same as YAML")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@click.option("-P", "--parsable2", "style", flag_value="parsable", help="The CSV's columns separated by |")
@click.option("--delimiter", default="|", show_default=True, help="What separates the columns of -P")
@click.option("-X", "--allocations", is_flag=True, help="Without steps: they are part of their jobs anyway")
@click.option("-D", "--duplicates", is_flag=True, help="Every run of a requeued job: each is listed anyway")
@color_option
@partial(server_options, state_names=("--state-dir",))  # --state is that of units
def units(server: str | None, token_file: Path | None, state_dir: Path | None, **given: Any) -> int:
    """List units and what they used: the largest consumers first.

    Figures are of a unit's whole life. ID is one of those that -j takes.
    """
    fields, style = given["fields"], Style(given["style"] or Style.TABLE)
    if given["helpformat"] or fields in ("help", "ALL"):
        click.echo("\n".join(help_lines()))
        return 0
    chosen = None if fields is None else parse_format(fields, READ if style is Style.TABLE else USUAL)
    output = Output(style, chosen, not given["noheader"], _one_sign(given["delimiter"]), given["no_trunc"])
    question = _Question(given, style)
    api = Api(server, token_file, state_dir)
    absence = cache(lambda: _absence(api, question))
    if not write_units(question.ask(api), output, lambda: absence().error):
        say("\n".join(absence().lines))
        return 1 if absence().is_failure else 0
    if style is Style.TABLE:
        _say_beside(api, question)
    if question.was_cut:
        first = "unit" if question.limit == 1 else f"{question.limit} units"
        click.echo(f"the first {first}; --limit 0 lists all that match", err=True)
    return _say_denied(api, question)


class _Question:
    """What was typed, as the API is asked. Raises UsageError, ConfigError."""

    def __init__(self, given: Mapping[str, Any], style: Style) -> None:
        from kwhere.cli.moments import read_window

        self.sort: Sort = parse_sort(given["sort"], is_ascending=given["ascending"])
        self.jobs = job_text([*given["ids"], *given["jobs"]])
        self.filters: dict[str, str | None] = {name: given[name] for name in _SEVERAL}
        self.filters["node"] = node_text(given["node"])
        if (given["cluster"] or "").lower() == "all":
            self.filters["cluster"] = None
        states = [word.strip() for word in (given["state"] or "").split(",") if word.strip()]
        self.states = [word for word in states if word.lower() not in WAITING]
        self.waits = len(self.states) < len(states)
        if self.sort.key == "power_watts" and not states:
            self.states = ["running"]  # who draws power now: what has just ended does not
        self.fixed: dict[str, str | None] = {
            "state": ",".join(self.states) or None,
            "job": self.jobs,
            "q": given["q"],
            **read_window(given["start"], given["end"]),
            "running": "true" if given["running"] else None,
        }
        is_read = style is Style.TABLE and self.jobs is None
        self.limit = (READ_AT_ONCE if is_read else ALL) if given["limit"] is None else given["limit"] or ALL
        self.was_cut = False
        self._seen: dict[str, set[str]] = {"user": set(), "project": set()}

    @property
    def lacking(self) -> dict[str, str | None]:
        """Return which of several users and projects that were named have nothing in the list, where it is whole."""
        named = {key: [name for name in several(self.filters[key]) if name] for key in self._seen}
        return {
            key: ",".join(lacking)
            for key, names in named.items()
            if len(names) > 1 and not self.was_cut and (lacking := [n for n in names if n not in self._seen[key]])
        }

    @property
    def window(self) -> str:
        """Return the time that was asked for in the viewer's zone, in words; empty: all of it."""
        edges = [(word, self.fixed[name]) for word, name in (("after", "from"), ("before", "to"))]
        return " and ".join(f"{word} {local_time(at)}" for word, at in edges if at)

    def ask(self, api: Api) -> Iterator[Json]:
        """Yield what matches, up to the limit."""
        for unit in self._ask(api):
            for key, names in self._seen.items():
                names.add(unit.get(key) or "")
            yield unit

    def _ask(self, api: Api) -> Iterator[Json]:
        left = self.limit
        if self.waits:
            for waiting in islice(ask_waiting(api, self.filters, left, self.jobs, self.fixed["q"]), left):
                yield waiting
                left -= 1
        if self.states or not self.waits:
            for unit in ask_units(api, self.filters, self.fixed, self.sort, left + 1):
                if left == 0:
                    self.was_cut = True
                    return
                yield unit
                left -= 1


def _say_beside(api: Api, question: _Question) -> None:
    """Say on stderr of which time the list is, and which managers may have units that it lacks."""
    if question.window:
        say(f"units alive {question.window}; figures are of their whole lives")
    for line in unread_managers(api, question.filters):
        say(f"the list may lack units: {line}")


def _absence(api: Api, question: _Question) -> Absence:
    """Return why the list is empty: a failure where an id was named that is not there, or may not be seen."""
    return why_nothing(api, {**question.filters, "state": question.fixed["state"]}, _wanted(question))


def _say_denied(api: Api, question: _Question) -> int:
    """Say whose units are not in the list because they may not be seen, and return 1; 0 where there are none such."""
    lacking = question.lacking
    denied = why_not(api, lacking) if lacking else None
    if denied is None:
        return 0
    say(denied)
    return 1


def _wanted(question: _Question) -> Wanted:
    is_waiting = question.waits and not question.states
    return Wanted(question.jobs, question.window, is_waiting)


def _one_sign(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.UsageError(f"--delimiter: expected one sign, found {delimiter!r}")
    return delimiter
