"""Half a minute under churn (`KWHERE_SOAK_SECONDS`: longer): short processes, short units, no CPU second lost."""

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_slot
from kwhere.ledger.pages import COLUMNS, Cursor
from kwhere.ledger.rows import Entry, Slot
from kwhere.sampling.saved import SavedState

ROOT = Path("/sys/fs/cgroup")
SECONDS = float(os.environ.get("KWHERE_SOAK_SECONDS", "30"))
STORM = "while :; do /bin/true; (:); done"
JOB = "i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done"


def trees() -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [ROOT / "cpuacct"] if (ROOT / "cpuacct").is_dir() else []


@pytest.fixture
def jobs() -> Iterator[Path]:
    """Yield a directory in which jobs can be made; skips where this machine lets nobody make one."""
    if os.geteuid() != 0 or not trees():
        pytest.skip("needs the service cgroups: root makes units in them")
    top = trees()[0] / "slurm_kwsoak"
    place = top / "uid_1000"
    try:
        place.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"needs the service cgroups: {error}")
    yield place
    place.rmdir()
    top.rmdir()


def cpu_ns(directory: Path) -> int:
    """Return what the kernel says a directory used."""
    if (directory / "cpuacct.usage").exists():
        return int((directory / "cpuacct.usage").read_text())
    line = (directory / "cpu.stat").read_text().splitlines()[0]
    return int(line.split()[1]) * 1000


def run_jobs(place: Path, seconds: float, truth: dict[str, int]) -> None:
    """Make jobs one after another, each with a process of some milliseconds, until the time is over."""
    chance = random.Random(1)
    until = monotonic() + seconds
    number = 0
    while monotonic() < until:
        number += 1
        job = place / f"job_{number}"
        job.mkdir()
        work = JOB.format(turns=chance.choice((100, 3_000, 30_000, 200_000)))
        subprocess.run(["sh", "-c", f"echo $$ > {job}/cgroup.procs; {work}"], check=True)
        truth[str(number)] = cpu_ns(job)
        job.rmdir()


def read_all(built) -> list[Slot]:  # type: ignore[no-untyped-def]
    slots: list[Slot] = []
    cursor: Cursor | None = None
    while True:
        page = built.journal.read(cursor, 1000)
        slots += [decode_slot(line, COLUMNS).slot for line in page.lines]
        if page.header.next is None:
            return slots
        epoch, seq = page.header.next.split(":")
        if cursor is not None and (cursor.epoch, cursor.seq) == (epoch, int(seq)):
            return slots
        cursor = Cursor(epoch, int(seq))


def used_ns(entry: Entry) -> int:
    return (entry.figures.cpu_user_ns or 0) + (entry.figures.cpu_system_ns or 0)


@pytest.mark.soak
@pytest.mark.slow
def test_no_cpu_second_is_lost_under_churn(jobs: Path, tmp_path: Path) -> None:
    config = AgentConfig.model_validate({"agent": {"slot_seconds": 5, "node": "n1", "machine_id": "m1"}})
    built = build_agent(config, tmp_path)
    built.agent.start()
    began = built.agent.sampler.saved(0)
    storm = subprocess.Popen(["sh", "-c", STORM])
    truth: dict[str, int] = {}
    worker = threading.Thread(target=run_jobs, args=(jobs, SECONDS, truth))
    worker.start()
    worker.join()
    storm.kill()
    storm.wait()
    assert built.agent.thread.stop()
    ended = built.agent.sampler.saved(0)
    slots = read_all(built)
    built.agent.stop()

    assert all(residuals(slot) == {} for slot in slots)
    entries = [entry for slot in slots for entry in slot.entries]
    busy_ns = counted_ns(ended) - counted_ns(began)
    carried_ns = sum(ended.socket_carry_ns) - sum(began.socket_carry_ns)
    assert sum(used_ns(entry) for entry in entries) + carried_ns == busy_ns
    booked_ns = sum(used_ns(entry) for entry in entries if entry.key is not None and entry.key.manager == "slurm")
    assert booked_ns == pytest.approx(sum(truth.values()), rel=0.01)
    assert built.agent.thread.counts().failed == 0
    assert len(truth) > SECONDS


def counted_ns(state: SavedState) -> int:
    return sum(sum(ticks) for ticks in state.cpu_ticks.values()) * NANOSECONDS_PER_SECOND // 100
