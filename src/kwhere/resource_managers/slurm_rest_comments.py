"""SLURM's AdminComment of ended jobs, by slurmrestd.

slurmctld refuses to change a job that is over, so this is slurmdbd's record: `POST /slurmdb/…/job/{job_id}`, which
SLURM 25.11 (v0.0.44) brought.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

from kwhere.core.errors import SourceError
from kwhere.resource_managers.notes import NotedRun, NoteSettings
from kwhere.resource_managers.slurm_comments import check_text, is_askable, is_of
from kwhere.resource_managers.slurm_jobs import SlurmJob
from kwhere.resource_managers.slurm_json import read_jobs, rows, words_of
from kwhere.resource_managers.slurm_sacct import Faults


class Ask(Protocol):
    """Asks slurmrestd for a path and returns the document; `body` is sent with POST."""

    def __call__(self, path: str, params: Mapping[str, str] | None = None, body: object = None) -> object:
        """Raises Unavailable and SourceError."""
        ...


class RestComments:
    """The field as a book of notes. Only an operator of SLURM may write in it."""

    def __init__(self, settings: NoteSettings, ask: Ask, version: str, slurm_cluster: str | None) -> None:
        self.settings = settings
        self._ask = ask
        self._place = f"/slurmdb/{version}/job"
        self._slurm_cluster = slurm_cluster

    def read(self, runs: Sequence[NotedRun]) -> Mapping[NotedRun, str]:
        """Return what stands at each job's newest run; older runs of requeued jobs cannot be written about."""
        found: dict[NotedRun, str] = {}
        for run in runs:
            if is_askable(run):
                newest = self._newest(run)
                if newest is not None and is_of(run, newest[0].started_at, newest[0].ended_at, newest[0].state):
                    found[run] = newest[1]
        return found

    def write(self, run: NotedRun, text: str) -> None:
        """Let `text` stand at a job. Raises SourceError where more than that job was changed, or none."""
        check_text(text)
        document = self._ask(self._path(run), None, {"comment": {"administrator": text}})
        changed = document.get("results") if isinstance(document, Mapping) else None
        if not isinstance(changed, list) or len(changed) != 1:
            count = len(changed) if isinstance(changed, list) else 0
            raise SourceError(
                f"slurmrestd: job {run.shown}: expected one job to be changed, found {count}: {words_of(document)}"
            )

    def _path(self, run: NotedRun) -> str:
        # The raw id of an array's last task is the array's own: it would mean all of its tasks.
        return f"{self._place}/{quote(run.shown, safe='')}"

    def _newest(self, run: NotedRun) -> tuple[SlurmJob, str] | None:
        """Return the newest record of a job and its comment: all runs of a requeued one are told.

        Raises SourceError where one cannot be read, which may be the newest.
        """
        newest: tuple[SlurmJob, str] | None = None
        for item in rows(self._ask(self._path(run)), "jobs"):
            # It speaks of its own cluster, and would write there.
            if self._slurm_cluster is not None and item.get("cluster") != self._slurm_cluster:
                continue
            faults = Faults()
            told = [*read_jobs({"jobs": [item]}, faults)]
            if faults.count and not told:
                raise SourceError(f"slurmrestd: job {run.shown}: expected records, found {faults.first}")
            for job in told:
                if str(job.raw_id) == run.unit and (newest is None or _submitted(job) >= _submitted(newest[0])):
                    newest = job, _comment(item)
        return newest


def _submitted(job: SlurmJob) -> float:
    return job.submitted_at.timestamp() if job.submitted_at is not None else 0.0


def _comment(item: Mapping[str, object]) -> str:
    comments = item.get("comment")
    text = comments.get("administrator") if isinstance(comments, Mapping) else None
    return text if isinstance(text, str) else ""
