"""The agent as a long-running role: its loop, its faces, its signals."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import structlog

from kwhere._version import __version__
from kwhere.agent.gpu_release import GpuRelease
from kwhere.agent.health import Health
from kwhere.agent.http_pages import HttpParts
from kwhere.agent.http_server import HttpFace
from kwhere.agent.ledger_token import ensure_token
from kwhere.agent.local_socket import SOCKET_NAME, LocalFacts, LocalSocket
from kwhere.agent.runtime import Face
from kwhere.apps.agent import BuiltAgent, build_agent, check_settings
from kwhere.apps.amd_exporter import amd_faces
from kwhere.apps.dcgm_exporter import agent_faces
from kwhere.apps.guests import guest_faces
from kwhere.apps.settings import Settings
from kwhere.core.errors import ConfigError, KwhereError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """Whether the sampler steps and the journal takes its slots."""

    built: BuiltAgent

    def __call__(self) -> Health:
        """Return the health now."""
        totals = self.built.agent.totals()
        reasons = []
        if totals is None:
            reasons.append("no step was done yet")
        elif (stale_s := self._stale_seconds(totals.utc_ns, totals.counts.interval_ns)) > 0:
            reasons.append(f"the last step was {stale_s:.0f} s ago")
        if totals is not None and totals.residual_uj:
            reasons.append(f"the books are off by {totals.residual_uj} microjoules")
        facts: dict[str, str | int | float | bool | None] = {
            "node": self.built.identity.node,
            "version": __version__,
            "steps": totals.counts.steps if totals else 0,
            "units": sum(unit.live for unit in totals.units) if totals else 0,
            "slots": totals.slots if totals else 0,
        }
        return Health(not reasons, tuple(reasons), facts)

    def _stale_seconds(self, utc_ns: int, interval_ns: int) -> float:
        age_ns = self.built.clock.utc_ns() - utc_ns
        return age_ns / NANOSECONDS_PER_SECOND if age_ns > max(10 * interval_ns, 10 * NANOSECONDS_PER_SECOND) else 0.0


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """An agent that runs, and the settings it runs under."""

    settings: Settings
    built: BuiltAgent
    face: HttpFace

    def stop(self) -> None:
        """End it: the slot is closed, everything given back."""
        self.built.agent.stop()


@dataclass(frozen=True, slots=True)
class AgentRole:
    """Starts an agent, and another one in its place when the configuration changed."""

    state_dir: Path
    handed_over: Sequence[socket.socket] = ()
    read_again: Callable[[], Settings] | None = None
    """Returns the configuration as it is now. Raises ConfigError. None: it does not change while we run."""

    def start(self, settings: Settings) -> RunningAgent:
        """Return an agent that runs. Raises ConfigError, Unavailable, JournalError; then nothing runs."""
        built = build_agent(settings, self.state_dir)
        face = HttpFace(
            settings.web,
            HttpParts(
                runner=built.agent.runner,
                journal=built.journal,
                health=AgentHealth(built),
                clock=built.clock,
                version=__version__,
                ledger_token=ensure_token(self.state_dir),
            ),
            handed_over=self.handed_over,
        )
        facts = LocalFacts(
            version=__version__,
            node=built.identity.node,
            interval_seconds=settings.agent.interval_seconds,
            slot_seconds=settings.agent.slot_seconds,
        )
        totals, step_now = built.agent.totals, built.agent.thread.step_now
        release = GpuRelease(built.gpus, file=settings.gpu.release_file, most_seconds=settings.gpu.release_seconds)
        local = LocalSocket(self.state_dir / SOCKET_NAME, facts, totals, built.clock, step_now, release)
        guests = guest_faces(
            settings.agent.guests, built.identity.node, built.agent.sampler, built.host, self.state_dir
        )
        built.agent.faces += [face, local, release, *build_push(settings, built), *guests]
        built.agent.faces += agent_faces(settings.dcgm_exporter, built.gpus)
        built.agent.faces += amd_faces(settings.amd_exporter, built.gpus, totals, built.identity.node)
        built.agent.start()
        return RunningAgent(settings, built, face)

    def renewed(self, running: RunningAgent) -> RunningAgent:
        """Return the agent under the configuration as it is now; the one that runs where that is wrong or the same."""
        running.face.reload()
        settings = self._other_settings(running.settings)
        if settings is None:
            return running
        running.stop()
        try:
            started = self.start(settings)
        except KwhereError as error:
            log.error("agent does not start with the new configuration, the old one comes back", error=str(error))
            return self.start(running.settings)
        log.info("configuration read again")
        return started

    def _other_settings(self, old: Settings) -> Settings | None:
        """Return the settings of now; None where they are wrong, the same, or cannot be taken up."""
        if self.read_again is None:
            return None
        try:
            settings = self.read_again()
            check_settings(settings)
        except ConfigError as error:
            log.error("configuration is wrong, the old one stays in force", error=str(error))
            return None
        if settings == old:
            return None
        if old.agent.user is not None:  # what was opened as root could not be opened again
            log.error("configuration changed, but this agent has given up root; it takes effect at the next start")
            return None
        return settings


def run_agent(
    settings: Settings,
    state_dir: Path,
    *,
    handed_over: Sequence[socket.socket] = (),
    read_again: Callable[[], Settings] | None = None,
) -> int:
    """Run until SIGTERM or SIGINT, return the exit code; SIGHUP reads the configuration again.

    Raises ConfigError, Unavailable, JournalError at start.
    """
    over, again, wake = threading.Event(), threading.Event(), threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        log.info("agent ends", signal=signal.Signals(number).name)
        over.set()
        wake.set()

    def read(_number: int, _frame: FrameType | None) -> None:
        again.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, read)
    role = AgentRole(state_dir, handed_over, read_again)
    running = role.start(settings)
    tell_systemd("READY=1")
    while not over.is_set():
        wake.wait(1.0)
        wake.clear()
        if again.is_set() and not over.is_set():
            again.clear()
            running = role.renewed(running)
        if not over.is_set() and not running.built.agent.thread.alive:
            log.error("sampler ended by itself")
            running.stop()
            return 1
    tell_systemd("STOPPING=1")
    running.stop()
    return 0


def build_push(settings: Settings, built: BuiltAgent) -> list[Face]:
    """Return what sends the ledger out, where a server is named. Raises ConfigError."""
    if settings.push.url is None or built.journal is None:
        return []
    # the HTTP client costs memory that an agent without this road does without
    from kwhere.ledger.push import LedgerPush, Pusher
    from kwhere.transport.http import HttpClient

    client = HttpClient(settings.push.url, settings.push.client)
    pusher = Pusher(client, built.journal, built.clock, settings.push.page_slots)
    return [LedgerPush(pusher, built.clock, settings.push.interval_seconds)]


def tell_systemd(state: str) -> None:
    """Tell the service manager our state (sd_notify(3)); without one, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
