"""A real agent killed with -9 at random: the ledger holds all that the kernel's counters say."""

import random
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from kwhere.core.clock import SystemClock
from kwhere.core.quantities import USER_HZ_NANOSECONDS
from kwhere.core.terms import Flag
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import product_uuid
from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_slot
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.ledger.pages import COLUMNS, Cursor
from kwhere.ledger.rows import Slot
from kwhere.sampling.saved import SavedState

PROGRAM = """
import signal, sys, threading
from pathlib import Path
from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig

config = AgentConfig.model_validate({
    "agent": {"interval_seconds": 0.1, "slot_seconds": 1, "first_slot_seconds": 0.2, "node": "n1", "machine_id": "m1"},
})
built = build_agent(config, Path(sys.argv[1]))
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
built.agent.start()
print("runs", flush=True)
over.wait()
built.agent.stop()
"""
KILLS = 20
CHURN = "for i in $(seq 1 40); do (exec sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'); done"


def start(state: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(state)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while (line := process.stdout.readline()) not in ("runs\n", ""):  # the log goes before it
        pass
    assert line
    return process


def end(process: "subprocess.Popen[str]", how: signal.Signals) -> int:
    process.send_signal(how)
    process.communicate(timeout=10)
    return process.returncode


def read(state: Path) -> tuple[list[Slot], SavedState | None]:
    """Return every slot in order, and the newest saved state."""
    identity = JournalIdentity("m1", product_uuid(HostFS()), "n1")
    facts = EpochFacts("n1", (), "m1", "unknown", None, 1, "allocation", 1, {}, "test")
    journal = Journal.open(state, identity, facts, clock=SystemClock())
    slots: list[Slot] = []
    cursor: Cursor | None = None
    while True:
        page = journal.read(cursor, 1000)
        slots += [decode_slot(line, COLUMNS).slot for line in page.lines]
        if page.header.next is None:
            break
        epoch, seq = page.header.next.split(":")
        cursor = Cursor(epoch, int(seq))
    text = journal.last_state()
    journal.close()
    return slots, SavedState.from_json(text) if text else None


def busy_ns(state: SavedState) -> int:
    return sum(sum(ticks) for ticks in state.cpu_ticks.values()) * USER_HZ_NANOSECONDS


def modelled_uj(state: SavedState) -> int:
    return sum(
        zone.counter_uj or 0
        for (source, _), domain in state.domains.items()
        for zone in domain.zones.values()
        if source == "model"
    )


@pytest.mark.slow
def test_an_agent_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(20)
    assert end(start(tmp_path), signal.SIGTERM) == 0
    before, began = read(tmp_path)
    assert began is not None

    for _ in range(KILLS):
        process = start(tmp_path)
        subprocess.run(["sh", "-c", CHURN], check=True)
        Event().wait(chance.random())
        end(process, signal.SIGKILL)
    assert end(start(tmp_path), signal.SIGTERM) == 0

    slots, ended = read(tmp_path)
    added = slots[len(before) :]
    assert ended is not None
    assert all(residuals(slot) == {} for slot in slots)
    assert sum(slot.node_busy_ns or 0 for slot in added) == busy_ns(ended) - busy_ns(began)
    assert sum(slot.monotonic_ns for slot in added) == ended.monotonic_ns - began.monotonic_ns
    assert all(one.end_ns == two.start_ns for one, two in pairwise(slots))
    assert sum(Flag.GAP in slot.flags for slot in added) == KILLS + 1
    energy_uj = sum(control.energy_uj for slot in added for control in slot.controls)
    assert energy_uj == modelled_uj(ended) - modelled_uj(began)
    cpu_ns = sum(
        (entry.figures.cpu_user_ns or 0) + (entry.figures.cpu_system_ns or 0)
        for slot in added
        for entry in slot.entries
    )
    carried_ns = sum(ended.socket_carry_ns) - sum(began.socket_carry_ns)
    assert cpu_ns + carried_ns == busy_ns(ended) - busy_ns(began)
