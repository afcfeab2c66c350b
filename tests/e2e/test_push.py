"""An agent that sends its ledger, a server that takes it in, both killed in between: nothing lost, nothing doubled."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.role_processes import Account, RoleProcesses, free_address, slots_and_energy_of

from kwhere.core.clock import SystemClock
from kwhere.ledger.push import Pusher
from kwhere.transport.http import HttpClient

TOKEN = "push-token-of-the-tests-0123456789"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RoleProcesses]:
    made = RoleProcesses(tmp_path)
    yield made
    made.kill_all()


@pytest.mark.slow
def test_ledger_arrives_whole_though_both_ends_are_killed(site: RoleProcesses) -> None:
    host, account = free_address(), Account(site.directory / "site.db")
    tokens = site.secret("tokens", TOKEN + "\n")
    groups = [{"name": "far", "cluster": "lab", "tokens_file": tokens}]
    site.configure("server", {"server": {"listen": host, "push": groups}, "database": {"url": account.url}})
    site.configure(
        "agent",
        {
            "agent": {"slot_seconds": 1, "interval_seconds": 0.2},
            "web": {"listen_addresses": ["127.0.0.1:0"]},
            "push": {"url": f"http://{host}", "interval_seconds": 1, "client": {"token_file": tokens}},
        },
    )
    site.start("server")
    site.start("agent")
    for victim in ("server", "agent", "server", "agent"):
        before = account.slots()
        site.wait_until(lambda before=before: account.slots() >= before + 2)  # type: ignore[misc]
        site.end(victim, signal.SIGKILL)
        site.start(victim)
    before = account.slots()
    site.wait_until(lambda: account.slots() >= before + 2)
    site.end("agent", signal.SIGTERM)

    journal = site.journal()
    with HttpClient(f"http://{host}", token=TOKEN) as client:
        site.wait_until(lambda: client.get("/").status < 500)
        Pusher(client, journal, SystemClock(), 100).push_all()
    slots, energy_uj = slots_and_energy_of(journal)
    journal.close()

    assert account.slots() == slots
    assert account.energy_uj() == energy_uj
    assert slots >= 10
