"""Hosts, guests and a server on one machine: real agents as processes, a meter whose counter a test lets run."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.role_processes import Account, RoleProcesses, free_address
from tests.guest_world import Row, total
from tests.unit.ledger.journals import FACTS

from kwhere.core.unit import UnitKey
from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_slot
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity, JournalStore
from kwhere.ledger.rows import ENERGY_COLUMNS, Slot
from kwhere.ledger.wire import parse_cursor
from kwhere.meters.guest_entry import GuestEntry, parse_entry

VM = "0c7d2f5e-8ddf-4338-91df-62d0044f0001"
TOKEN = "token-of-the-nested-agents-0123456789"
BURN = """
import time
while True:
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass
    time.sleep(0.09)
"""


class RunningMeter:
    """A sysfs whose RAPL package runs at 60 W, its memory at 6 W and psys at 90 W, while it is let."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._zones = [("intel-rapl:0", "package-0", 60), ("intel-rapl:0:0", "dram", 6), ("intel-rapl:1", "psys", 90)]
        for directory, name, _ in self._zones:
            zone = root / "class/powercap" / directory
            zone.mkdir(parents=True)
            (zone / "name").write_text(f"{name}\n")
            (zone / "max_energy_range_uj").write_text("262143328850\n")
            (zone / "energy_uj").write_text("1000000\n")
        (root / "devices").symlink_to("/sys/devices")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        steps = 0
        while not self._over.wait(0.05):
            steps += 1
            for directory, _, watts in self._zones:
                path = self.root / "class/powercap" / directory / "energy_uj"
                with path.open("r+") as stream:  # the same file: agents keep it open
                    stream.write(f"{1_000_000 + steps * watts * 50_000}\n")


class FakeMachine:
    """A cgroup that looks like a VM of libvirt, and a process in it that looks like QEMU and uses a tenth of a CPU.

    One at a time on this host: agents would see two of one name, and each would be told half of what both used.
    """

    def __init__(self) -> None:
        self._alone = (Path(tempfile.gettempdir()) / "kwhere-tests-guest.lock").open("w")
        fcntl.flock(self._alone, fcntl.LOCK_EX)
        host = HostFS()
        name = f"/machine.slice/machine-qemu\\x2d7\\x2dkwhere{os.getpid()}.scope"
        self._made: list[Path] = []
        for hierarchy in detect_layout(host).cpu:
            directory = host.path(hierarchy.directory(name))
            for above in (directory.parent, directory):
                with contextlib.suppress(FileExistsError):
                    above.mkdir()
                    self._made.append(above)
        command = ["qemu-system-x86_64", "-c", BURN, "-name", "guest=nested", "-smp", "1", "-m", "512", "-uuid", VM]
        self._process = subprocess.Popen(command, executable=sys.executable)
        for directory in self._made:
            if directory.name.endswith(".scope"):
                (directory / "cgroup.procs").write_text(str(self._process.pid))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for directory in reversed(self._made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        self._alone.close()


@dataclass
class NestedSite:
    """Agents by name, each with its state in a directory of its own; one server that pulls all."""

    directory: Path
    meter: RunningMeter
    agents: dict[str, str] = field(default_factory=dict)
    """Address of each."""

    def __post_init__(self) -> None:
        self.roles = RoleProcesses(self.directory)
        self.account = Account(self.directory / "site.db")
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def share(self) -> Path:
        """What the guest sees of its host."""
        return self.directory / "share"

    def feed_directory(self, host: str) -> Path:
        return self.directory / host / "shared"

    def add_host(self, name: str) -> None:
        self._add(name, {"guests": {"vms": {VM: {"directory": str(self.feed_directory(name))}}}}, {})

    def add_guest(self, name: str) -> None:
        feed = {"file": str(self.share / "energy.json"), "interval_seconds": 0.2, "stale_seconds": 3}
        self._add(name, {}, {"hypervisor": feed})

    def _add(self, name: str, more: dict[str, object], meters: dict[str, object]) -> None:
        (self.directory / name / "state").mkdir(0o700, parents=True)
        self.roles.secret(f"{name}/state/ledger-token", TOKEN + "\n")
        self.agents[name] = free_address()
        tree = {
            "agent": {
                "node": name, "machine_id": f"machine-{name}", "boot_id": f"boot-{name}",
                "interval_seconds": 0.2, "slot_seconds": 1, **more,
            },
            "path": {"sysfs": str(self.meter.root)},
            "meters": meters,
            "web": {"listen_addresses": [self.agents[name]]},
        }  # fmt: skip
        (self.directory / f"{name}.json").write_text(json.dumps(tree))

    def plug(self, host: str) -> None:
        """Let the guest see that host's share: it is started there, or has migrated."""
        fresh = self.directory / "share.new"
        fresh.symlink_to(self.feed_directory(host))
        fresh.replace(self.share)

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.e2e.guest_agent", f"{self.directory}/{name}.json"]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, str(self.directory / name / "state")], stdout=log, stderr=log
            )

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        process.wait(20)

    def start_server(self) -> None:
        token = self.roles.secret("token", TOKEN + "\n")
        targets = [
            {"name": name, "cluster": "lab", "urls": [f"http://{address}"], "client": {"token_file": token}}
            for name, address in self.agents.items()
        ]
        server = {"listen": free_address(), "pull_seconds": 0.3, "targets": targets}
        self.roles.configure("server", {"server": server, "database": {"url": self.account.url}})
        self.roles.start("server")

    def close(self) -> None:
        for name in list(self._running):
            self.end(name, signal.SIGKILL)
        self.roles.kill_all()

    def entry(self, host: str) -> GuestEntry:
        """Return what the host last told."""
        return parse_entry((self.feed_directory(host) / "energy.json").read_bytes(), host)

    def slots(self, name: str) -> list[tuple[str | None, Slot]]:
        """Return every slot of an agent that has ended, in order, each with the parent its epoch names."""
        state = self.directory / name / "state"
        store = JournalStore(state / "journal.sqlite", writable=False)
        identity: JournalIdentity | None = store.binding()
        store.close()
        assert identity is not None
        journal = Journal.open(state, identity, FACTS)
        found: list[tuple[str | None, Slot]] = []
        after = None
        while True:
            page = journal.read(after, 1000)
            for line in page.lines:
                slot = decode_slot(line, page.header.columns).slot
                assert residuals(slot) == {}
                found.append((page.header.parent, slot))
            if page.header.next is None:
                journal.close()
                return found
            after = parse_cursor(page.header.next)


def row_of(entry: GuestEntry) -> Row:
    """Return a feed's counters in the order of the energy columns."""
    found = {str(e.component): (e.dynamic_uj, e.idle_uj) for e in entry.energies}
    return tuple(found.get(str(c), (0, 0))[part == "idle"] for c, part in ENERGY_COLUMNS)


def vm_row(slots: Iterable[tuple[str | None, Slot]]) -> Row:
    """Return what a host's ledger says of the VM."""
    return total(
        entry for _, slot in slots for entry in slot.entries if isinstance(entry.key, UnitKey) and entry.key.unit == VM
    )


def whole_row(slots: Iterable[tuple[str | None, Slot]]) -> Row:
    """Return what a ledger says in all."""
    return total(entry for _, slot in slots for entry in slot.entries)
