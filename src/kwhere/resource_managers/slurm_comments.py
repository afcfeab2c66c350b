"""SLURM's AdminComment of ended jobs, by `sacct` and `sacctmgr`."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from kwhere.core.errors import SourceError
from kwhere.resource_managers.notes import NotedRun, NoteSettings
from kwhere.resource_managers.slurm_sacct import Faults, Table, draw_delimiter, split_records
from kwhere.resource_managers.slurm_words import parse_state, parse_time

_FIELDS = ("JobIDRaw", "JobID", "Start", "End", "State", "AdminComment", "JobIDRaw")
_SHOWN = re.compile(r"[0-9]{1,18}(?:[_+][0-9]{1,18})?")
_TEXT = re.compile(r"[\x20-\x7e]{1,4000}")
_QUOTES = frozenset("'\"`\\")
_MODIFIED = re.compile(r"^\s*([0-9]+(?:[_+][0-9]+)?) submitted at", re.MULTILINE)
_ENDED = frozenset(
    {
        *("completed", "cancelled", "failed", "timeout", "node_fail", "preempted", "boot_fail", "deadline"),
        *("out_of_memory", "revoked"),
    }
)
Run = Callable[..., str]
"""Runs one of SLURM's programs and returns what it wrote."""


class AdminComments:
    """The field as a book of notes. Only an operator of SLURM may write in it."""

    def __init__(self, settings: NoteSettings, run: Run, slurm_cluster: Callable[[], str]) -> None:
        self.settings = settings
        self._run = run
        self._slurm_cluster = slurm_cluster
        self._cluster: str | None = None

    def read(self, runs: Sequence[NotedRun]) -> Mapping[NotedRun, str]:
        """Return what stands at each job's newest run; older runs of requeued jobs cannot be written about."""
        wanted = {run.unit: run for run in runs if is_askable(run)}
        if not wanted:
            return {}
        table = Table(_FIELDS, draw_delimiter())
        text = self._run(
            *("sacct", "--allusers", "--allocations", "--parsable2", "--noheader"),
            f"--clusters={self._name()}",
            f"--delimiter={table.delimiter}",
            f"--jobs={','.join(sorted(run.shown for run in wanted.values()))}",
            f"--format={','.join(_FIELDS)}",
        )
        faults = Faults()
        found: dict[NotedRun, str] = {}
        for raw, _, start, end, state, comment, _ in split_records(text, table, faults):
            run = wanted.get(raw.strip())
            if run is not None and _is_of(run, start, end, state):
                found[run] = comment
        return found

    def write(self, run: NotedRun, text: str) -> None:
        """Let `text` stand at a job. Raises SourceError where more than that job was changed, or none."""
        check_text(text)
        # The raw id of an array's last task is the array's own: it would mean all of its tasks.
        said = self._run(
            *("sacctmgr", "-i", "modify", "job", "where", f"jobid={run.shown}", f"cluster={self._name()}"),
            *("set", f"AdminComment={text}"),
        )
        changed = set(_MODIFIED.findall(said))  # one that was resized has several records
        if len(changed) > 1:
            raise SourceError(f"sacctmgr: job {run.shown}: expected one job to be changed, found {len(changed)}")

    def _name(self) -> str:
        if self._cluster is None:
            self._cluster = self._slurm_cluster()
        return self._cluster


def _is_of(run: NotedRun, start: str, end: str, state: str) -> bool:
    try:
        return is_of(run, parse_time(start), parse_time(end), state)
    except SourceError:
        return False


def is_of(run: NotedRun, started_at: datetime | None, ended_at: datetime | None, state: str) -> bool:
    """Return whether a record of the same id is of this run, and of one that is over for good."""
    return started_at == run.started_at and ended_at is not None and parse_state(state).name in _ENDED


def is_askable(run: NotedRun) -> bool:
    """Return whether its ids mean one job: neither several nor a step."""
    return _SHOWN.fullmatch(run.shown) is not None and run.unit.isdecimal()


def check_text(text: str) -> None:
    """Raise SourceError for what SLURM would change on the way into its database."""
    if not _TEXT.fullmatch(text) or _QUOTES & set(text):
        raise SourceError("AdminComment: what stands there holds signs that SLURM would change")
