"""Puts `kwhere up` together: one machine, one process tree, one address."""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from kwhere.agent.listen import KEY as LISTEN_KEY
from kwhere.agent.listen import address_of, is_local, open_sockets
from kwhere.apps.settings import Settings
from kwhere.core.errors import ConfigError
from kwhere.emission_factors.zones import system_time_zone
from kwhere.local.supervisor import Supervisor
from kwhere.reports.sources import Hint

CLUSTER = "local"
DEFAULT_LISTEN = "127.0.0.1:9811"
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
FIRST_SLOT_SECONDS = 2.0
SLOT_SECONDS = 10.0
PULL_SECONDS = 1.0
TOKEN_BYTES = 24
HINTS_SECONDS = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line asks for."""

    state_dir: Path
    listen: str | None = None
    """None: the default, or the next free port."""


@dataclass(frozen=True, slots=True)
class UpParts:
    """The sockets, bound before the roles are forked, and what opens the page."""

    pages: list[socket.socket]
    agent: list[socket.socket]
    token: str
    lock: int
    """Descriptor that holds the state directory; kept open for as long as we run."""

    @property
    def url(self) -> str:
        """Return the address of the pages on this machine, without the token."""
        host, port = self.pages[0].getsockname()[:2]
        return f"http://127.0.0.1:{port}" if host in WILDCARDS else f"http://{address_of(self.pages[0])}"

    @property
    def is_open(self) -> bool:
        """Return whether other machines can reach the pages."""
        return not all(is_local(listening) for listening in self.pages)


def prepare(options: UpOptions, settings: Settings) -> UpParts:
    """Take the state directory, the ports and a token.

    Raises ConfigError: the state directory is another's or cannot be written, an explicit port is taken.
    """
    state = options.state_dir
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = lock_state(state)
        token = ensure_access_token(state / "token")
        pages = open_pages(options.listen)
        agent = open_sockets(settings.web.listen_addresses, next_free_port=True)
        parts = UpParts(pages, agent, token, lock)
        (state / "url").write_text(f"{parts.url}\n")
    except OSError as error:
        raise ConfigError(f"--state {state}: cannot be written: {error.strerror}") from error
    return parts


def open_pages(listen: str | None) -> list[socket.socket]:
    """Return the sockets of the pages; without `listen` the default address or the next free port.

    Raises ConfigError.
    """
    if listen is None:
        return open_sockets([DEFAULT_LISTEN], next_free_port=True)
    try:
        return open_sockets([listen])
    except ConfigError as error:
        raise ConfigError(f"--listen: {str(error).removeprefix(f'{LISTEN_KEY}: ')}") from error


def supervise(options: UpOptions, settings: Settings, parts: UpParts, ready: Callable[[], None]) -> int:
    """Run agent and server until a signal; return the exit code."""
    settings = up_settings(settings, options.state_dir, f"http://{address_of(parts.agent[0])}")

    def agent() -> int:
        from kwhere.apps.agent_role import run_agent

        return run_agent(settings, options.state_dir, handed_over=parts.agent)

    def server() -> int:
        from kwhere.apps.server_role import ServerInputs, ServerStart, run_server

        hints = KeptHints(settings, time.monotonic)
        inputs = ServerInputs(options.state_dir, parts.token, parts.pages, hints)
        return run_server(ServerStart(settings, inputs))

    supervisor = Supervisor({"agent": agent, "server": server})
    ready()
    return supervisor.run()


class KeptHints:
    """What the Overview's "What next" shows, looked for at most once a minute."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._due = 0.0
        self._hints: Sequence[Hint] = ()

    def __call__(self) -> Sequence[Hint]:
        """Return the hints, perhaps a minute old."""
        from kwhere.apps.doctor import next_steps

        if self._monotonic() >= self._due:
            self._due = self._monotonic() + HINTS_SECONDS
            self._hints = next_steps(self._settings)
        return self._hints


def up_settings(settings: Settings, state_dir: Path, agent_url: str) -> Settings:
    """Return `settings` with what one machine needs: short slots, fast pulls, one target, its own time zone."""
    tree: dict[str, Any] = settings.model_dump(exclude_unset=True)  # what nobody set keeps its place's own default
    agent, server = tree.setdefault("agent", {}), tree.setdefault("server", {})
    agent.setdefault("slot_seconds", max(SLOT_SECONDS, settings.agent.interval_seconds))
    agent.setdefault("first_slot_seconds", max(FIRST_SLOT_SECONDS, settings.agent.interval_seconds))
    tree.setdefault("site", {}).setdefault("time_zone", system_time_zone())
    server["pull_seconds"] = PULL_SECONDS
    server["targets"] = (
        {
            "name": CLUSTER,
            "cluster": CLUSTER,
            "urls": (agent_url,),
            "client": {"token_file": state_dir / "ledger-token"},
        },
    )
    return Settings.model_validate(tree)


def lock_state(state_dir: Path) -> int:
    """Return a descriptor that holds `state_dir` for one `kwhere up`. Raises ConfigError if another has it."""
    descriptor = os.open(state_dir / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        url = state_dir / "url"
        where = f" at {url.read_text().strip()}" if url.is_file() else ""
        raise ConfigError(f"--state {state_dir}: another `kwhere up` runs{where}") from error
    return descriptor


def ensure_access_token(path: Path) -> str:
    """Return the token in `path`, a new random one if there is none; only its owner may read the file."""
    try:
        text = path.read_text().strip()
        if text:
            path.chmod(0o600)
            return text
    except FileNotFoundError:
        pass
    token = secrets.token_urlsafe(TOKEN_BYTES)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{token}\n")
    return token
