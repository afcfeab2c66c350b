"""Powercap trees for tests: written as files, and made to fail as kernels do."""

import errno
from collections.abc import Mapping
from pathlib import Path

from kwhere.kernel.hostfs import READ_LIMIT_BYTES, HostFS, KeptFile, failure
from kwhere.meters.meter import MeterContext
from kwhere.meters.settings import MeterSettings

RANGE = 262_143_328_850
RANGE_AMD = 65_532_610_987
GIB = 1 << 30


def write_zone(
    root: Path,
    directory: str,
    name: str,
    energy_uj: int | str,
    *,
    range_uj: int | None = RANGE,
    files: Mapping[str, int | str] | None = None,
    nested: bool = False,
) -> Path:
    """Write one zone below `root`/class/powercap, flat as the kernel lists it or nested as it lies in devices/."""
    parts = directory.split(":")
    parents = [":".join(parts[:depth]) for depth in range(1, len(parts))] if nested else []
    path = root.joinpath("class", "powercap", *parents, directory)
    path.mkdir(parents=True, exist_ok=True)
    contents = {"name": name, "energy_uj": energy_uj, "enabled": 1, **(files or {})}
    if range_uj is not None:
        contents["max_energy_range_uj"] = range_uj
    for file, content in contents.items():
        (path / file).write_text(f"{content}\n")
    return path


class FaultyFS(HostFS):
    """A host whose files fail to open or to read with given errors, by the end of their path."""

    def __init__(self, sysfs: Path) -> None:
        super().__init__(procfs=sysfs / "no-proc", sysfs=sysfs, cgroupfs=sysfs / "no-cgroup")
        self.closed: dict[str, int] = {}
        """errno by path suffix, on open: EACCES and the like."""
        self.mute: dict[str, int] = {}
        """errno by path suffix, on read: EINVAL, ENODATA, EIO."""

    def keep(self, area_path: str) -> KeptFile:
        self._refuse(area_path)
        return _FaultyFile(self, area_path)

    def read(self, area_path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        self._refuse(area_path)
        return super().read(area_path, limit_bytes)

    def _refuse(self, area_path: str) -> None:
        for suffix, number in self.closed.items():
            if area_path.endswith(suffix):
                raise failure(OSError(number, "fault"), self.path(area_path))


class _FaultyFile(KeptFile):
    __slots__ = ("_faulty",)

    def __init__(self, fs: FaultyFS, area_path: str) -> None:
        super().__init__(fs, area_path)
        self._faulty = fs

    def read(self) -> bytes:
        for suffix, number in self._faulty.mute.items():
            if self.area_path.endswith(suffix):
                raise failure(OSError(number, "fault"), self._faulty.path(self.area_path))
        return super().read()


def context(
    root: Path | HostFS,
    *,
    vendor: str | None = "GenuineIntel",
    sockets: tuple[str, ...] = ("0",),
    cpus_per_socket: int = 2,
    busy_ns: Mapping[int, int] | None = None,
    model: str | None = None,
    settings: MeterSettings | None = None,
) -> MeterContext:
    """Return what a meter is built from, over the tree at `root`."""
    fs = root if isinstance(root, HostFS) else FaultyFS(root)
    cpus = {
        rank * cpus_per_socket + cpu: socket for rank, socket in enumerate(sockets) for cpu in range(cpus_per_socket)
    }
    busy = busy_ns if busy_ns is not None else dict.fromkeys(cpus, 0)
    return MeterContext(
        fs=fs,
        socket_of_cpu=cpus,
        cpu_vendor=vendor,
        cpu_model=model,
        memory_bytes=64 * GIB,
        busy_ns=lambda: busy,
        settings=settings or MeterSettings(),
    )


EACCES, EINVAL, ENODATA, EIO = errno.EACCES, errno.EINVAL, errno.ENODATA, errno.EIO
