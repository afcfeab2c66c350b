"""Reads a tree of GPUs by hand: a library over it, a clock that a test moves."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.gpu_trees import Tree

from kwhere.devices.gpu import DeviceState, GpuSnapshot, Vendor
from kwhere.devices.gpu_board import GpuBoard
from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_library import DeviceDown, DeviceReport, Library
from kwhere.graphics.amd import AmdLibrary
from kwhere.graphics.intel import IntelLibrary
from kwhere.kernel.hostfs import HostFS

SECOND = 1_000_000_000
WATT = 1_000_000
GROUPS = tuple(RateGroup)


@dataclass
class Bench:
    """One vendor's GPUs in a tree below `root`."""

    root: Path
    vendor: Vendor = Vendor.AMD
    tree: Tree = field(default_factory=Tree)
    now_ns: int = 1000 * SECOND
    library: Library | None = None
    board: GpuBoard = field(init=False)

    def __post_init__(self) -> None:
        self.board = GpuBoard(self.vendor)

    @property
    def fs(self) -> HostFS:
        return HostFS(self.root / "proc", self.root / "sys", self.root / "cgroup")

    def clock_ns(self) -> int:
        return self.now_ns

    def open(self) -> "Bench":
        """Write the tree and open the library over it."""
        self.tree.write(self.root)
        if self.library is None:
            make = AmdLibrary if self.vendor is Vendor.AMD else IntelLibrary
            self.library = make(self.fs, self.clock_ns)
        self.board.opened(self.library.open())
        return self

    def read(self, seconds: float = 1.0) -> GpuSnapshot:
        """Write the tree as it is now, let time pass, and read every group of every GPU."""
        assert self.library is not None
        self.tree.write(self.root)
        self.now_ns += int(seconds * SECOND)
        for uuid in self.board.uuids():
            try:
                reports = self.library.read(uuid, GROUPS)
            except DeviceDown as error:
                reports = [DeviceReport(uuid, RateGroup.FAST, 0, down=error.reason)]
            for report in reports:
                self.board.report(report)
        return self.board.snapshot()

    def device(self, index: int = 0, seconds: float = 1.0) -> DeviceState:
        """Return one GPU, read now."""
        return self.read(seconds).devices[index]
