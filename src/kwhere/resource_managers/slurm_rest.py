"""SLURM by slurmrestd: the same jobs, accounts and nodes, from a machine without SLURM's commands."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit, Queue
from kwhere.core.timespan import Span
from kwhere.resource_managers.notes import NoteBook, NoteSettings
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_json import (
    NOTHING_FOUND,
    is_nothing_found,
    read_accounts,
    read_jobs,
    read_nodes,
    words_of,
)
from kwhere.resource_managers.slurm_queue import read_queue_json
from kwhere.resource_managers.slurm_refusals import is_too_much, refusal
from kwhere.resource_managers.slurm_resizes import Resizes
from kwhere.resource_managers.slurm_rest_comments import RestComments
from kwhere.resource_managers.slurm_sacct import Faults
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings, Tokens
from kwhere.resource_managers.slurm_windows import SpanTooLongError, fetch_in_halves
from kwhere.transport.http import Answer, HttpClient

_NO_CONTENT = 204
_OLDEST = (0, 0, 38)
"""Versions before tell as the start of a job when it could have begun (22.05.8 was asked)."""
_SHOWS_DUPLICATES = (0, 0, 40)
"""From this version on it tells the earlier runs of requeued jobs; older ones refuse to be asked."""
_WRITES = (0, 0, 44)
"""From this version on, SLURM 25.11, the accounting's record of a job can be changed."""

log = structlog.get_logger(__name__)


class SlurmRest:
    """One cluster by slurmrestd. Used by one thread."""

    name = "slurm"

    def __init__(
        self,
        settings: SlurmRestSettings,
        cluster: str,
        slurm_cluster: str | None,
        account_suffixes: Sequence[str],
        clock: Clock,
        noted: NoteSettings | None = None,
    ) -> None:
        """Raises ConfigError."""
        parts = urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("rest.url: expected http:// or https:// and a host")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ConfigError("rest.url: expected https off this machine: a token would be read on the way")
        self._version = tuple(int(part) for part in settings.version[1:].split("."))
        if self._version < _OLDEST:
            raise ConfigError(
                f"rest.version: expected v0.0.38 or later, found {settings.version}: it does not tell when jobs began"
            )
        if noted is not None and self._version < _WRITES:
            raise ConfigError(
                f"admin_comment: expected rest.version v0.0.44 or later (SLURM 25.11), found {settings.version}, "
                "which cannot write it; SLURM's commands can"
            )
        self.cluster = cluster
        self.notes: NoteBook | None = None
        if noted is not None:
            self.notes = RestComments(noted, self._ask, settings.version, slurm_cluster)
        self._slurm_cluster = slurm_cluster
        self._suffixes = tuple(account_suffixes)
        self._settings = settings
        self._reader = JobReader(cluster, account_suffixes)
        self._resizes = Resizes(self._fetch_records)
        self._tokens = Tokens(settings, clock)
        self._client = HttpClient(settings.url, settings.client)
        self._told_faults = ""

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        """Yield the runs of jobs; an answer that is too long is asked for in halves."""
        return fetch_in_halves(span, self._fetch, "rest.client.max_answer_bytes")

    def _fetch(self, span: Span) -> Iterator[ManagerUnit]:
        first, last = int(span.start.timestamp()), int(span.end.timestamp() + 0.999_999)
        params = {"start_time": f"uts{first}", "end_time": f"uts{last}", "skip_steps": "true"}
        if self._version >= _SHOWS_DUPLICATES:
            params["show_duplicates"] = "true"
        if self._slurm_cluster is not None:
            params["cluster"] = self._slurm_cluster
        return self._units(self._ask(f"/slurmdb/{self._settings.version}/jobs", params), span)

    def _units(self, document: object, span: Span) -> Iterator[ManagerUnit]:
        return self._resizes.join(unit for unit in self._records(document) if unit.lived_within(span))

    def _fetch_records(self, of: Sequence[ManagerUnit]) -> Iterator[ManagerUnit]:
        """Yield all records of these units' jobs."""
        place = f"/slurmdb/{self._settings.version}/job"
        for job in sorted({unit.unit for unit in of}):
            yield from self._records(self._ask(f"{place}/{job}"))

    def _records(self, document: object) -> Iterator[ManagerUnit]:
        faults = Faults()
        for job in read_jobs(document, faults):
            unit = self._reader.unit_of(job)
            if unit is not None:
                yield unit
        self._tell(faults)

    def _tell(self, faults: Faults) -> None:
        if faults.count and faults.first != self._told_faults:
            self._told_faults = faults.first
            log.warning("records cannot be read", cluster=self.cluster, records=faults.count, first=faults.first)

    def fetch_queue(self) -> Queue:
        """Return what slurmctld has waiting, and what it has begun."""
        faults = Faults()
        document = self._ask(f"/slurm/{self._settings.version}/jobs")
        queue = read_queue_json(document, self.cluster, self._suffixes, faults)
        self._tell(faults)
        # A job whose record cannot be read may be among those that live.
        return replace(queue, living=None) if faults.count else queue

    def fetch_accounts(self) -> Accounts:
        """Return the accounts and who may charge them."""
        place = f"/slurmdb/{self._settings.version}"
        associations, accounts = self._ask(f"{place}/associations"), self._ask(f"{place}/accounts")
        return read_accounts(associations, accounts, self._slurm_cluster, self._suffixes)

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the nodes."""
        return [*read_nodes(self._ask(f"/slurm/{self._settings.version}/nodes"))]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, path: str, params: Mapping[str, str] | None = None, body: object = None) -> object:
        """Return the document; `body` is sent with POST. A token that is refused is renewed once.

        Raises Unavailable and SourceError.
        """
        for is_last in (False, True):
            answer = self._send(path, params, body)
            if answer.status in (401, 403) and not is_last:
                self._tokens.forget()
                continue
            break
        if answer.status in (401, 403):
            raise Unavailable("permission", f"slurmrestd: {path}: {self._tokens.describe()}")
        if answer.status == 404:
            raise Unavailable("unsupported", f"slurmrestd: {path}: not found; set rest.version to one that it has")
        if answer.status == _NO_CONTENT:
            return NOTHING_FOUND  # releases since 23.02 say so of a span without jobs
        document = _document(path, answer)
        if answer.status >= 400 and not is_nothing_found(document):
            words = words_of(document)
            if is_too_much(words):
                raise SpanTooLongError(f"slurmrestd: {path}: {words}")
            if answer.status >= 500 or not isinstance(document, dict):
                raise refusal(f"slurmrestd: {path}: status {answer.status}", words)
        return document

    def _send(self, path: str, params: Mapping[str, str] | None, body: object) -> Answer:
        headers = {"X-SLURM-USER-NAME": self._settings.user, "X-SLURM-USER-TOKEN": self._tokens.current()}
        if body is None:
            return self._client.get(path, params, headers, follow_redirects=False)
        content = json.dumps(body).encode()
        return self._client.post(path, content=content, headers={**headers, "Content-Type": "application/json"})


def _document(path: str, answer: Answer) -> object:
    """Names are as people typed them: bytes that are no text are replaced, control signs stay. Raises SourceError."""
    try:
        document: object = json.loads(answer.body.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"slurmrestd: {path}: status {answer.status}, expected JSON, found none") from error
    return document
