"""Whom to read: configured and discovered targets of all groups; a source that fails keeps its last good list."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, KwhereError, SourceError
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.server.discovered import NODE_LABEL, SCHEME_LABEL, Discovered, look_up, parse_groups, parse_json, read_file
from kwhere.server.settings import TargetGroup
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Source:
    """One place of discovery and how it is asked."""

    name: str
    ask: Callable[[], list[Discovered]]


class Targets:
    """The targets of all groups. `current` is cheap and may be called from any thread."""

    def __init__(self, groups: Sequence[TargetGroup], clock: Clock) -> None:
        self._groups = {group.name: group for group in groups}
        if len(self._groups) != len(groups):
            raise ConfigError("server.targets: expected a different name for each group")
        self._static = [target for group in groups for target in _configured(group)]
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, list[Target]] = {}
        self._due_ns: dict[str, int] = {}
        self._failures = FailureMemory()

    def current(self) -> Sequence[Target]:
        """Return every target, configured ones first; an address is read once, for the first group that names it."""
        with self._lock:
            for group in self._groups.values():
                if self._due_ns.get(group.name, 0) <= self._clock.monotonic_ns():
                    self._refresh(group)
            named = [*self._static, *(target for found in self._found.values() for target in found)]
        return list({target.url: target for target in reversed(named)}.values())[::-1]

    def connect(self, target: Target) -> HttpClient:
        """Return a client for `target` with its group's trust; without its credentials where they must not go."""
        settings = self._groups[target.group].client
        if not target.may_see_credentials:
            settings = without_credentials(settings)
        return HttpClient(target.url, settings)

    def _refresh(self, group: TargetGroup) -> None:
        self._due_ns[group.name] = self._clock.monotonic_ns() + int(group.refresh_seconds * NANOSECONDS_PER_SECOND)
        for source in _sources(group):
            try:
                found = [_discovered(group, each) for each in source.ask()]
            except KwhereError as error:
                self._tell(source.name, str(error))
                continue
            self._found[source.name] = found
            if self._failures.recovered(source.name):
                log.info("target discovery works again", source=source.name)

    def _tell(self, source: str, fault: str) -> None:
        times = self._failures.failed(source, fault, self._clock.monotonic_ns())
        if times is not None:
            log.warning("target discovery failed", source=source, fault=fault, times=times)


def without_credentials(settings: HttpClientSettings) -> HttpClientSettings:
    """Return `settings` that trust as before and show neither token nor certificate."""
    return settings.model_copy(update={"token_file": None, "client_certificate_file": None, "client_key_file": None})


def check_url(url: str, place: str) -> str:
    """Return `url` as scheme, host and port. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"{place}: expected http(s)://HOST:PORT, found {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _configured(group: TargetGroup) -> Iterator[Target]:
    for index, url in enumerate(group.urls):
        yield _target(group, check_url(url, f"server.targets.{group.name}.urls.{index}"), None, sees=True)


def _discovered(group: TargetGroup, found: Discovered) -> Target:
    scheme = found.label(SCHEME_LABEL) or group.scheme
    url = found.address if "://" in found.address else f"{scheme}://{found.address}"
    try:
        url = check_url(url, found.address)
    except ConfigError as error:
        raise SourceError(str(error)) from error
    sees = group.trust_discovered and url.startswith("https://")
    return _target(group, url, found.label(NODE_LABEL), sees=sees)


def _target(group: TargetGroup, url: str, node: str | None, *, sees: bool) -> Target:
    return Target(group.cluster, url, group.name, node, sees, int(group.ceiling_watts * 1000))


def _sources(group: TargetGroup) -> Iterator[_Source]:
    for pattern in group.files:
        paths = sorted(pattern.parent.glob(pattern.name)) if "*" in pattern.name else [pattern]
        for path in paths:
            yield _Source(f"{group.name} file {path}", lambda path=path: read_file(path))  # type: ignore[misc]
    if group.http is not None:
        yield _Source(f"{group.name} http", lambda: _ask(group))
    for name in group.dns:
        yield _Source(f"{group.name} dns {name}", lambda name=name: look_up(name))  # type: ignore[misc]


def _ask(group: TargetGroup) -> list[Discovered]:
    assert group.http is not None
    parts = urlsplit(group.http)
    place = f"server.targets.{group.name}.http"
    headers: Mapping[str, str] = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": "60"}
    with HttpClient(f"{parts.scheme}://{parts.netloc}", group.http_client) as client:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        answer = client.get(path, headers=headers)
    if answer.status != 200:
        raise SourceError(f"{place}: expected status 200, found {answer.status}")
    return parse_groups(parse_json(answer.body, place), place)
