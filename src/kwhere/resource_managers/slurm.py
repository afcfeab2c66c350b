"""SLURM: jobs by `sacct` or slurmrestd, accounts by `sacctmgr`, nodes by `scontrol`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit, Queue
from kwhere.core.timespan import Span
from kwhere.resource_managers.notes import NoteBook, NoteSettings
from kwhere.resource_managers.plugin import ManagerPlugin, ManagerSettings
from kwhere.resource_managers.resource_manager import ResourceManager
from kwhere.resource_managers.slurm_comments import AdminComments
from kwhere.resource_managers.slurm_facts import read_accounts, read_nodes
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_known import RecordReader
from kwhere.resource_managers.slurm_queue import queue_format, read_queue
from kwhere.resource_managers.slurm_refusals import is_too_much, refusal
from kwhere.resource_managers.slurm_resizes import Resizes
from kwhere.resource_managers.slurm_rest import SlurmRest
from kwhere.resource_managers.slurm_rights import check_sight
from kwhere.resource_managers.slurm_sacct import (
    Faults,
    Table,
    choose_fields,
    draw_delimiter,
    offered_fields,
    read_job,
    split_records,
)
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings
from kwhere.resource_managers.slurm_windows import SpanTooLongError, fetch_in_halves
from kwhere.transport.commands import Finished, run_command

NAME = "slurm"
_MOST_DAMAGED = 3
"""So many records that cannot be read may stand alone in a quiet span; more of them, and none whole, are a format of
which nothing would be read."""
_JOBS_AT_ONCE = 500

log = structlog.get_logger(__name__)


class SlurmSettings(ManagerSettings):
    """How SLURM is asked. Its commands must be on this machine, with a user who may see all jobs."""

    slurm_cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="SLURM's own name of the cluster, where its accounting has several; none: the local one.",
    )
    conf_file: Path | None = Field(default=None, description="Its slurm.conf; none: where its commands look for it.")
    programs_dir: Path | None = Field(
        default=None, description="Directory of sacct, sacctmgr and scontrol; none: those of PATH."
    )
    timeout_seconds: float = Field(default=120.0, gt=0, description="Longest wait for one command, in seconds.")
    max_answer_bytes: int = Field(
        default=64 * 1024 * 1024,
        gt=0,
        description="Largest answer of one command, in bytes; a longer one of jobs is asked for in halves.",
    )
    account_suffixes: tuple[str, ...] = Field(
        default=(), description="Endings of accounts that are left off, once, e.g. `_gpu` of `cfd_gpu`."
    )
    admin_comment: NoteSettings | None = Field(
        default=None,
        description="Write energy, CO2e and CPU efficiency of ended jobs into SLURM's AdminComment; none: never. "
        "By `rest` from v0.0.44 on.",
    )
    rest: SlurmRestSettings | None = Field(
        default=None, description="Ask slurmrestd instead of running SLURM's commands here."
    )


class Slurm:
    """One cluster by SLURM's commands. Used by one thread."""

    name = NAME

    def __init__(self, settings: SlurmSettings) -> None:
        self.cluster = settings.cluster
        self._settings = settings
        self._job_reader = JobReader(settings.cluster, settings.account_suffixes)
        self._reader = RecordReader(self._job_reader)
        self._resizes = Resizes(self._fetch_records)
        self._fields: tuple[str, ...] | None = None
        noted = settings.admin_comment
        self.notes: NoteBook | None = None
        if noted is not None:
            self.notes = AdminComments(noted, self._run, self._slurm_cluster)
        self._told_faults = ""

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        """Yield the runs of jobs; an answer that is too long is asked for in halves."""
        return fetch_in_halves(span, self._fetch, "max_answer_bytes")

    def _fetch(self, span: Span) -> Iterator[ManagerUnit]:
        text, table = self._ask_jobs(span)
        return self._units(text, table, span)

    def _units(self, text: str, table: Table, span: Span) -> Iterator[ManagerUnit]:
        return self._resizes.join(self._records(text, table, span))

    def _fetch_records(self, of: Sequence[ManagerUnit]) -> Iterator[ManagerUnit]:
        """Yield all records of these units' jobs."""
        jobs = sorted({unit.unit for unit in of})
        newest = max(each for unit in of for each in (unit.started_at, unit.submitted_at, unit.ended_at) if each)
        span = Span(min(unit.started_at for unit in of), newest + timedelta(seconds=1))
        for at in range(0, len(jobs), _JOBS_AT_ONCE):
            text, table = self._ask_jobs(span, jobs[at : at + _JOBS_AT_ONCE])
            faults = Faults()
            for job in (read_job(record, table, faults) for record in split_records(text, table, faults)):
                unit = None if job is None else self._job_reader.unit_of(job)
                if unit is not None:
                    yield unit
            self._tell(faults)

    def _records(self, text: str, table: Table, span: Span) -> Iterator[ManagerUnit]:
        faults, is_read = Faults(), False
        for unit in self._reader.read(text, table, faults):
            is_read = True
            if unit is not None and unit.lived_within(span):
                yield unit
        if not is_read and (faults.torn or faults.count > _MOST_DAMAGED):
            raise SourceError(f"sacct: no record could be read; {faults.first}")
        self._tell(faults)

    def _tell(self, faults: Faults) -> None:
        if faults.count and faults.first != self._told_faults:
            self._told_faults = faults.first
            log.warning("records cannot be read", cluster=self.cluster, records=faults.count, first=faults.first)

    def fetch_queue(self) -> Queue:
        """Return what slurmctld has waiting, and what it has begun."""
        delimiter, ending = draw_delimiter(), draw_delimiter()
        text = self._run(
            *("squeue", "--all", "--noheader", "--states=all"),
            *self._of_cluster(),
            f"--Format={queue_format(delimiter, ending)}",
        )
        faults = Faults()
        queue = read_queue(text, delimiter, ending, self.cluster, self._settings.account_suffixes, faults)
        self._tell(faults)
        # A job whose record cannot be read may be among those that live.
        return replace(queue, living=None) if faults.count else queue

    def fetch_accounts(self) -> Accounts:
        """Return the accounts and who may charge them."""
        of_cluster = f"cluster={self._slurm_cluster()}"
        shown = self._run("sacctmgr", "-n", "-P", "show", "assoc", of_cluster, "format=Account,User,ParentName")
        described = self._run("sacctmgr", "-n", "-P", "show", "account", "format=Account,Description")
        return read_accounts(shown, described, self._settings.account_suffixes)

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the nodes."""
        return [
            *read_nodes(self._run("scontrol", *self._of_cluster(), "--details", "show", "node", "--oneliner", "--all"))
        ]

    def close(self) -> None:
        """Nothing is held."""

    def _slurm_cluster(self) -> str:
        if self._settings.slurm_cluster is not None:
            return self._settings.slurm_cluster
        for line in self._run("scontrol", "show", "config").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "ClusterName" and value.strip():
                return value.strip()
        raise SourceError("scontrol show config: expected ClusterName, found none")

    def _of_cluster(self) -> tuple[str, ...]:
        """A federation would have its commands tell of the jobs of all its clusters."""
        name = self._settings.slurm_cluster
        return ("--local",) if name is None else (f"--clusters={name}",)

    def _ask_jobs(self, span: Span, jobs: Sequence[str] = ()) -> tuple[str, Table]:
        if self._fields is None:
            check_sight(self._run)
            self._fields = choose_fields(offered_fields(self._run("sacct", "--helpformat")))
        table = Table(self._fields, draw_delimiter())
        try:
            text = self._run(
                *("sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--noheader", "--noconvert"),
                *self._of_cluster(),
                f"--delimiter={table.delimiter}",
                f"--starttime={_second(span.start)}",
                f"--endtime={_second(span.end + timedelta(microseconds=999_999))}",
                f"--format={','.join(table.fields)}",
                *([f"--jobs={','.join(jobs)}"] if jobs else []),
            )
        except (SourceError, Unavailable):
            self._fields = None  # it may be another release by now
            raise
        return text, table

    def _run(self, program: str, *arguments: str) -> str:
        """Return what a command wrote. Raises Unavailable, which says why, and AnswerTooLongError."""
        settings = self._settings
        path = str(settings.programs_dir / program) if settings.programs_dir else program
        # In UTC no hour comes twice; seconds since 1970 need no time zone at all. Lists of array tasks come whole.
        environment = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
        if settings.conf_file is not None:
            environment["SLURM_CONF"] = str(settings.conf_file)
        done = run_command(
            [path, *arguments],
            timeout_seconds=settings.timeout_seconds,
            max_output_bytes=settings.max_answer_bytes,
            environment=environment,
        )
        _check(program, done, settings.timeout_seconds)
        return done.stdout.decode("utf-8", "replace")


def _second(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _check(program: str, done: Finished, timeout_seconds: float) -> None:
    """An empty answer with an error beside it is no answer: no job has ended by it."""
    words = " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
    if done.timed_out:
        raise Unavailable(
            "timeout", f"{program}: no answer within {timeout_seconds:g} s; it said: {words or 'nothing'}"
        )
    has_failed = done.exit_code != 0 or ("error:" in words.lower() and not done.stdout.strip())
    if has_failed and is_too_much(words):
        raise SpanTooLongError(f"{program}: {words}")
    fault = refusal(program, words or f"ended with {done.exit_code}, and said nothing")
    if has_failed or fault.reason == "unsupported":
        raise fault


def _build(settings: SlurmSettings, clock: Clock) -> ResourceManager:
    if settings.rest is None:
        return Slurm(settings)
    suffixes, noted = settings.account_suffixes, settings.admin_comment
    return SlurmRest(settings.rest, settings.cluster, settings.slurm_cluster, suffixes, clock, noted)


plugin = ManagerPlugin(NAME, "Jobs, accounts and nodes of SLURM, by commands or slurmrestd.", SlurmSettings, _build)
