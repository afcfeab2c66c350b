"""Agent → server → server, all of them killed in between: both accounts are the journal, to the microjoule."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.role_processes import Account, RoleProcesses, free_address, slots_and_energy_of
from tests.unit.collectors.fake_collectors import context
from tests.unit.ledger.journals import StandingClock

from kwhere.agent.health import Health
from kwhere.agent.http_pages import HttpParts
from kwhere.agent.http_server import HttpFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import SystemClock
from kwhere.ledger.journal import Journal

TOKEN = "relay-token-of-the-tests-0123456789"
AGENT_TOKEN = "agent-token-of-the-tests-0123456789"


class Chain:
    """The three of them, configured; none runs yet."""

    def __init__(self, directory: Path) -> None:
        self.processes = RoleProcesses(directory)
        self.near, self.far = Account(directory / "near.db"), Account(directory / "far.db")
        self.agent_host, near_host, far_host = free_address(), free_address(), free_address()
        tokens = self.processes.secret("tokens", TOKEN + "\n")
        self.processes.state.mkdir(0o700)
        agent_token = self.processes.secret("agent/ledger-token", AGENT_TOKEN + "\n")
        self.processes.configure(
            "agent",
            {
                "agent": {"slot_seconds": 1, "interval_seconds": 0.2},
                "web": {"listen_addresses": [self.agent_host]},
            },
        )
        target = {
            "name": "g",
            "cluster": "lab",
            "urls": [f"http://{self.agent_host}"],
            "client": {"token_file": agent_token},
        }
        relay = {
            "cluster": "lab",
            "url": f"http://{far_host}",
            "interval_seconds": 1,
            "client": {"token_file": tokens},
        }
        near = {"listen": near_host, "pull_seconds": 0.5, "targets": [target], "relay": [relay]}
        self.processes.configure("near", {"server": near, "database": {"url": self.near.url}})
        far = {"listen": far_host, "push": [{"name": "sub", "cluster": "main", "tokens_file": tokens}]}
        self.processes.configure("far", {"server": far, "database": {"url": self.far.url}})

    def start(self, name: str) -> None:
        self.processes.start(name, "agent" if name == "agent" else "server")

    def restart(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.processes.end(name, number)
        self.start(name)

    def wait_for_more(self, account: Account, slots: int = 2) -> None:
        before = account.slots()
        self.processes.wait_until(lambda: account.slots() >= before + slots)

    def face(self, journal: Journal) -> HttpFace:
        """Serve the journal where its agent did."""
        runner = CollectorRunner([], context(StandingClock()))
        parts = HttpParts(runner, journal, lambda: Health(True), SystemClock(), "0.1.0", AGENT_TOKEN)
        return HttpFace(HttpSettings(listen_addresses=(self.agent_host,)), parts)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path)
    yield made
    made.processes.kill_all()


@pytest.mark.slow
def test_both_accounts_are_the_journal_though_all_are_killed(chain: Chain) -> None:
    for name in ("agent", "near", "far"):
        chain.start(name)
    chain.wait_for_more(chain.far)
    for victim in ("near", "far", "agent"):
        chain.restart(victim)
        chain.wait_for_more(chain.far)
    chain.processes.end("far", signal.SIGTERM)
    chain.wait_for_more(chain.near, 4)
    chain.restart("near", signal.SIGTERM)
    chain.start("far")
    chain.wait_for_more(chain.far, 5)
    chain.processes.end("agent", signal.SIGTERM)

    journal = chain.processes.journal()
    slots, energy_uj = slots_and_energy_of(journal)
    face = chain.face(journal)
    face.start()
    chain.processes.wait_until(lambda: chain.far.slots() >= slots)
    face.stop()
    journal.close()

    for account in (chain.near, chain.far):
        assert (account.slots(), account.energy_uj(), account.lost()) == (slots, energy_uj, 0)
        assert account.epochs() == 2
    assert slots >= 10
