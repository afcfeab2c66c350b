"""HTTP faces of agents that listen on loopback, over a real journal and collectors that a test feeds."""

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import httpx
from tests.unit.collectors.fake_collectors import context, fake_plugin
from tests.unit.ledger.journals import StandingClock, open_journal

from kwhere.agent.health import Health
from kwhere.agent.http_pages import HttpParts
from kwhere.agent.http_server import HttpFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.ledger.journal import Journal

TOKEN = "a-token-of-the-tests-0123456789"
ENERGY = MetricSpec(
    "kwhere_unit_energy_joules_total", Kind.COUNTER, "Energy.", ("manager", "unit", "run", "component", "part")
)
INFO = MetricSpec("kwhere_unit_info", Kind.INFO, "Unit.", ("manager", "unit", "run", "name", "user", "project"))
LOAD = MetricSpec("kwhere_node_load1", Kind.GAUGE, "Load.")


def unit_samples(joules: float = 1.5) -> list[Sample]:
    return [
        Sample(ENERGY, ("slurm", "42", "42@7", "cpu", "dynamic"), joules, 1795975931.0),
        Sample(ENERGY, ("process", "alice:cfd", "alice:cfd@7", "cpu", "dynamic"), joules, 1795975931.0),
        Sample(INFO, ("slurm", "42", "42@7", "secret-name", "alice", "secret-project"), 1),
        Sample(INFO, ("process", "alice:cfd", "alice:cfd@7", "", "alice", ""), 1),
    ]


class Face:
    """A running face and what feeds it."""

    def __init__(self, face: HttpFace, journal: Journal, clock: StandingClock, feed: SimpleNamespace) -> None:
        self.face = face
        self.journal = journal
        self.clock = clock
        self.feed = feed

    @property
    def url(self) -> str:
        return self.face.urls[0].rstrip("/")

    def get(self, path: str, *, token: str | None = None, method: str = "GET", **more: object) -> httpx.Response:
        headers = dict(more.pop("headers", {}))  # type: ignore[call-overload]
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        verify = more.pop("verify", True)
        with httpx.Client(verify=verify, trust_env=False) as client:  # type: ignore[arg-type]
            return client.request(method, self.url + path, headers=headers, **more)  # type: ignore[arg-type]


class FaceMaker:
    """Starts faces and ends them with the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._faces: list[Face] = []

    def __call__(
        self,
        *,
        settings: HttpSettings | None = None,
        token: str | None = TOKEN,
        health: Callable[[], Health] = lambda: Health(True, facts={"step_seconds": 1.0}),
        handed_over: Sequence[socket.socket] = (),
    ) -> Face:
        clock = StandingClock()
        feed = SimpleNamespace(samples=unit_samples())

        def give() -> Iterator[Sample]:
            return iter(feed.samples)

        plugins = [
            fake_plugin("units", give, (ENERGY, INFO)),
            fake_plugin("load", lambda: iter([Sample(LOAD, (), 0.5)]), (LOAD,)),
        ]
        runner = CollectorRunner([(plugin, plugin.settings_class()) for plugin in plugins], context(clock))
        journal = open_journal(self._directory / f"state{len(self._faces)}")
        parts = HttpParts(runner, journal, health, clock, "0.1.0", token)
        made = Face(HttpFace(settings or local(), parts, handed_over=handed_over), journal, clock, feed)
        self._faces.append(made)
        made.face.start()
        return made

    def close(self) -> None:
        for made in self._faces:
            made.face.stop()
            made.journal.close()


def local(**more: object) -> HttpSettings:
    """Settings of a face on a free port of loopback."""
    return HttpSettings(listen_addresses=("127.0.0.1:0",), **more)  # type: ignore[arg-type]


def trusting(ca_file: Path, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """What a client needs to trust a test authority, with its own certificate if it has one."""
    ssl_context = ssl.create_default_context(cafile=str(ca_file))
    if client is not None:
        ssl_context.load_cert_chain(*client)
    return ssl_context
