"""SLURM by slurmrestd: the same jobs, accounts and nodes, from a machine without SLURM's commands."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel, ConfigDict, Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit, Queue
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_json import read_accounts, read_jobs, read_nodes, words_of
from kwhere.resource_managers.slurm_queue import read_queue_json
from kwhere.resource_managers.slurm_sacct import Faults
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

TOKEN_SECONDS = 600
_RENEW_SECONDS = 60
_SHOWS_DUPLICATES = (0, 0, 40)
"""From this version on it tells the earlier runs of requeued jobs; older ones refuse to be asked."""

log = structlog.get_logger(__name__)


class SlurmRestSettings(BaseModel):
    """How slurmrestd is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Address of slurmrestd, e.g. `https://slurm.example:6820`.")
    version: str = Field(
        default="v0.0.40", pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+$", description="Version of its API, e.g. `v0.0.40`."
    )
    user: str = Field(
        default="slurm", pattern=r"^[A-Za-z0-9._-]+$", description="SLURM's user who asks; one who may see all jobs."
    )
    token_file: Path | None = Field(
        default=None, description="File with a token (JWT) that somebody renews; read anew for each request."
    )
    key_file: Path | None = Field(
        default=None, description="SLURM's jwt_key: tokens of ten minutes are then made here, as they are needed."
    )
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="How it is spoken to: CA, certificate, time-outs."
    )


class Tokens:
    """The token of the next request; never shown."""

    def __init__(self, settings: SlurmRestSettings, clock: Clock) -> None:
        if (settings.token_file is None) == (settings.key_file is None):
            raise ConfigError("rest: expected one of token_file and key_file")
        self._settings = settings
        self._clock = clock
        self._made = ""
        self._until_seconds = 0

    def current(self) -> str:
        """Return a token that holds for a minute at least, or what is in the file. Raises Unavailable."""
        if self._settings.token_file is not None:
            return _first_line(self._settings.token_file)
        now = self._clock.utc_ns() // NANOSECONDS_PER_SECOND
        if self._until_seconds - now < _RENEW_SECONDS or self._until_seconds > now + TOKEN_SECONDS:
            self._until_seconds = now + TOKEN_SECONDS
            self._made = self._sign(now)
        return self._made

    def forget(self) -> None:
        """Make a new one next time: this one was refused."""
        self._until_seconds = 0

    def _sign(self, now: int) -> str:
        assert self._settings.key_file is not None
        try:
            key = self._settings.key_file.read_bytes()
        except OSError as error:
            raise Unavailable("permission", f"rest.key_file: cannot be read: {error.strerror}") from error
        if len(key) < 16:
            raise Unavailable("permission", "rest.key_file: expected a key of at least 16 bytes")
        claims = {"iat": now, "exp": now + TOKEN_SECONDS, "sun": self._settings.user}
        words = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        return f"{words}.{_encoded(hmac.new(key, words.encode(), hashlib.sha256).digest())}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="ascii").split()
    except (OSError, ValueError) as error:
        raise Unavailable("permission", f"rest.token_file: {path} cannot be read: {type(error).__name__}") from error
    token = lines[0].removeprefix("SLURM_JWT=") if lines else ""
    if not token:
        raise Unavailable("permission", f"rest.token_file: {path} is empty")
    return token


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
    ) -> None:
        parts = urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("rest.url: expected http:// or https:// and a host")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ConfigError("rest.url: expected https off this machine: a token would be read on the way")
        self.cluster = cluster
        self._slurm_cluster = slurm_cluster
        self._suffixes = tuple(account_suffixes)
        self._settings = settings
        self._reader = JobReader(cluster, account_suffixes)
        self._tokens = Tokens(settings, clock)
        self._client = HttpClient(settings.url, settings.client)
        self._told_faults = ""

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        """Yield the runs of jobs."""
        first, last = int(span.start.timestamp()), int(span.end.timestamp() + 0.999_999)
        params = {"start_time": f"uts{first}", "end_time": f"uts{last}", "skip_steps": "true"}
        if tuple(int(part) for part in self._settings.version[1:].split(".")) >= _SHOWS_DUPLICATES:
            params["show_duplicates"] = "true"
        if self._slurm_cluster is not None:
            params["cluster"] = self._slurm_cluster
        faults = Faults()
        for job in read_jobs(self._ask(f"/slurmdb/{self._settings.version}/jobs", params), faults):
            unit = self._reader.unit_of(job)
            if unit is not None and unit.started_at < span.end:
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

    def _ask(self, path: str, params: Mapping[str, str] | None = None) -> object:
        """Return the document; a token that is refused is renewed once. Raises Unavailable and SourceError."""
        for is_last in (False, True):
            headers = {"X-SLURM-USER-NAME": self._settings.user, "X-SLURM-USER-TOKEN": self._tokens.current()}
            answer = self._client.get(path, params, headers, follow_redirects=False)
            if answer.status in (401, 403) and not is_last:
                self._tokens.forget()
                continue
            break
        if answer.status in (401, 403):
            raise Unavailable("permission", f"slurmrestd: {path}: the token of {self._settings.user} is refused")
        if answer.status == 404:
            raise Unavailable("unsupported", f"slurmrestd: {path}: not found; set rest.version to one that it has")
        try:
            document: object = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"slurmrestd: {path}: status {answer.status}, expected JSON, found none") from error
        if answer.status >= 500 or (answer.status >= 400 and not isinstance(document, dict)):
            raise Unavailable("refused", f"slurmrestd: {path}: status {answer.status}: {words_of(document)}")
        return document
