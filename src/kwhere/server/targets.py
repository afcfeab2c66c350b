"""Whom to read: configured and discovered targets of all groups; a source that fails keeps its last good list."""

import threading
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, KwhereError, SourceError
from kwhere.core.failure_memory import FailureMemory
from kwhere.server.discovered import NODE_LABEL, SCHEME_LABEL, Discovered
from kwhere.server.discovery_sources import Source, sources_of
from kwhere.server.settings import TargetGroup
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

STOP_SECONDS = 1.0
_CREDENTIALS = ("token_file", "client_certificate_file", "client_key_file")

log = structlog.get_logger(__name__)


class Targets:
    """The targets of all groups. `current` never waits; discovery runs in a thread per group that has any."""

    def __init__(self, groups: Sequence[TargetGroup], clock: Clock) -> None:
        self._groups = {group.name: group for group in groups}
        if len(self._groups) != len(groups):
            raise ConfigError("server.targets: expected a different name for each group")
        self._static = [target for group in groups for target in _configured(group)]
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, list[Target]]] = {group.name: {} for group in groups}
        self._failures = FailureMemory()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Look for targets from now on."""
        for group in self._groups.values():
            if group.files or group.http is not None or group.dns:
                thread = threading.Thread(
                    target=self._look_on, args=(group,), name=f"discovery-{group.name}", daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def stop(self) -> None:
        """End soon; whoever waits for an answer is left behind."""
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS / len(self._threads))

    def current(self) -> Sequence[Target]:
        """Return every target, configured ones first; an address is read once, for the first group that names it."""
        with self._lock:
            found = [target for sources in self._found.values() for held in sources.values() for target in held]
        named = [*self._static, *found]
        return list({target.url: target for target in reversed(named)}.values())[::-1]

    def connect(self, target: Target) -> HttpClient:
        """Return a client for `target` with its group's trust; without its credentials where they must not go."""
        settings = self._groups[target.group].client
        if not target.may_see_credentials:
            settings = without_credentials(settings)
        if target.server_name is not None:
            settings = settings.model_copy(update={"server_name": target.server_name})
        return HttpClient(target.url, settings)

    def refresh(self) -> None:
        """Ask every source once, now. Never raises for a source."""
        for group in self._groups.values():
            self._refresh(group)

    def _look_on(self, group: TargetGroup) -> None:
        self._refresh(group)
        while not self._over.wait(group.refresh_seconds):
            self._refresh(group)

    def _refresh(self, group: TargetGroup) -> None:
        sources = list(sources_of(group))
        for source in sources:
            self._ask(group, source)
        names = {source.name for source in sources}
        with self._lock:
            held = self._found[group.name]
            gone = held.keys() - names
            for name in gone:
                del held[name]
        for name in sorted(gone):
            log.warning("target file is gone, and its targets with it", source=name)

    def _ask(self, group: TargetGroup, source: Source) -> None:
        try:
            found = [_discovered(group, source, each) for each in source.ask()]
        except KwhereError as error:
            self._tell(source.name, str(error))
            return
        except Exception as error:  # noqa: BLE001 - the one runner of discovery: whatever a file holds
            self._tell(source.name, f"{type(error).__name__}: {error}")
            return
        with self._lock:
            self._found[group.name][source.name] = found
            back = self._failures.recovered(source.name)
        if back:
            log.info("target discovery works again", source=source.name)

    def _tell(self, source: str, fault: str) -> None:
        with self._lock:
            times = self._failures.failed(source, fault, self._clock.monotonic_ns())
        if times is not None:
            log.warning("target discovery failed, its last good list stays", source=source, fault=fault, times=times)


def without_credentials(settings: HttpClientSettings) -> HttpClientSettings:
    """Return `settings` that trust as before and show neither token nor certificate."""
    return settings.model_copy(update=dict.fromkeys(_CREDENTIALS))


def check_url(url: str, place: str) -> str:
    """Return `url` as scheme, host and port. Raises ConfigError, which shows nothing of a user or password in it."""
    if not (url.isascii() and url.isprintable()) or any(sign in url for sign in " \\"):
        raise ConfigError(f"{place}: expected http(s)://HOST:PORT in plain ASCII, found {ascii(url)[:80]}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{place}: expected http(s)://HOST:PORT: {error}") from error
    if "@" in parts.netloc:
        raise ConfigError(f"{place}: expected http(s)://HOST:PORT without a user; credentials belong into files")
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not is_bare:
        raise ConfigError(f"{place}: expected http(s)://HOST:PORT, found {url[:80]!r}")
    return f"{parts.scheme}://{parts.netloc}"


def is_named(host: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern names `host`; `*` stands for one whole label."""
    labels = host.lower().rstrip(".").split(".")
    for pattern in patterns:
        wanted = pattern.lower().rstrip(".").split(".")
        if len(wanted) == len(labels) and all(want in ("*", label) for want, label in zip(wanted, labels, strict=True)):
            return True
    return False


def _configured(group: TargetGroup) -> Iterator[Target]:
    for index, url in enumerate(group.urls):
        yield Target(
            cluster=group.cluster,
            url=check_url(url, f"server.targets.{group.name}.urls.{index}"),
            group=group.name,
            ceiling_mw=int(group.ceiling_watts * 1000),
            checks_name=group.checks_names and group.client.server_name is None,
        )


def _discovered(group: TargetGroup, source: Source, found: Discovered) -> Target:
    scheme = found.label(SCHEME_LABEL) or group.scheme
    url = found.address if "://" in found.address else f"{scheme}://{found.address}"
    try:
        url = check_url(url, source.name)
    except ConfigError as error:
        raise SourceError(str(error)) from error
    # What was configured is the name: of the host by a pattern, of a certificate by the name that was looked up.
    is_configured = source.server_name is not None or is_named(urlsplit(url).hostname or "", group.hosts)
    return Target(
        cluster=group.cluster,
        url=url,
        group=group.name,
        node=found.label(NODE_LABEL),
        may_see_credentials=url.startswith("https://") and is_configured,
        ceiling_mw=int(group.ceiling_watts * 1000),
        server_name=group.client.server_name or source.server_name,
        checks_name=group.checks_names and group.client.server_name is None,
    )
