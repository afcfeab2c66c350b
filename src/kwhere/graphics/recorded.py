"""GPUs of a recorded host: its files are read here, once per moment, and no child process is asked."""

from collections.abc import Callable
from threading import Lock

from kwhere.devices.gpu import GpuSnapshot, Vendor
from kwhere.devices.gpu_board import GpuBoard
from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_library import DeviceDown, DeviceReport, Library, LibraryError
from kwhere.kernel.hostfs import HostFS


class RecordedGpus:
    """A `GpuSource` over one vendor's files of a copied tree."""

    def __init__(self, vendor: Vendor, source: str, make: Callable[[], Library], fs: HostFS) -> None:
        self.vendor = vendor
        self.source = source
        self.interval_seconds = 1.0
        self._fs = fs
        self._library = make()
        self._board = GpuBoard(vendor)
        self._moment: int | None = None
        self._lock = Lock()
        self._found = GpuSnapshot(vendor)

    def start(self) -> None:
        """Nothing has to be started."""

    def release(self, timeout_seconds: float = 10.0) -> bool:
        """Return that nothing is held."""
        return True

    def acquire(self) -> None:
        """Nothing has to be taken."""

    def close(self) -> None:
        """Nothing is held."""

    def snapshot(self) -> GpuSnapshot:
        """Return all GPUs at the moment that is selected."""
        with self._lock:
            if self._moment != self._fs.generation:
                self._read(is_first=self._moment is None)
                self._moment, self._found = self._fs.generation, self._board.snapshot()
            return self._found

    def _read(self, *, is_first: bool) -> None:
        if is_first:
            try:
                self._board.opened(self._library.open())
            except LibraryError as error:
                self._board.failed(error.reason, str(error))
                return
        for uuid in self._board.uuids():
            try:
                reports = self._library.read(uuid, tuple(RateGroup))
            except DeviceDown as error:
                reports = [DeviceReport(uuid, RateGroup.FAST, 0, down=error.reason)]
            for report in reports:
                self._board.report(report)
