"""What the node's disks carried, from `/proc/diskstats`."""

import re
from collections.abc import Iterator, Sequence

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.collectors.patterns import Pattern
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.diskstats import SECTOR_BYTES, DiskReading, parse_diskstats
from kwhere.kernel.hostfs import HostFS

READ_BYTES = MetricSpec("kwhere_node_disk_read_bytes_total", Kind.COUNTER, "Bytes read from a disk.", ("device",))
WRITE_BYTES = MetricSpec("kwhere_node_disk_write_bytes_total", Kind.COUNTER, "Bytes written to a disk.", ("device",))
READ_OPERATIONS = MetricSpec(
    "kwhere_node_disk_read_operations_total", Kind.COUNTER, "Reads that a disk completed.", ("device",)
)
WRITE_OPERATIONS = MetricSpec(
    "kwhere_node_disk_write_operations_total", Kind.COUNTER, "Writes that a disk completed.", ("device",)
)
BUSY_SECONDS = MetricSpec(
    "kwhere_node_disk_busy_seconds_total", Kind.COUNTER, "Time with a request in flight on a disk.", ("device",)
)
DISKS = MetricSpec("kwhere_node_disks", Kind.GAUGE, "Disks that were found; more than are shown where the limit cuts.")

_PARTITION = re.compile(r"(?:[hsv]d[a-z]+|xvd[a-z]+)[0-9]+|(?:nvme[0-9]+n[0-9]+|mmcblk[0-9]+|nbd[0-9]+)p[0-9]+")
_MILLISECONDS = 1000


class DiskSettings(CollectorSettings):
    """Which disks are shown."""

    exclude: Pattern = Field(
        default=r"(loop|ram|zram|fd|sr|dm-|md|nbd|drbd|rbd)\d.*",
        description="Regular expression of device names left out: by default those that hold no data of their own.",
    )
    limit: int = Field(default=2, ge=0, description="Number of disks shown, first by name; 0 = all.")


class DiskCollector:
    """Keeps `/proc/diskstats` open."""

    def __init__(self, context: CollectorContext, settings: DiskSettings) -> None:
        """Open the file. Raises Unavailable."""
        self._host = context.host
        self._settings = settings
        self._exclude = re.compile(settings.exclude)
        self._file = context.host.keep("proc/diskstats")

    def collect(self) -> Iterator[Sample]:
        """Yield bytes, operations and busy seconds of each disk; partitions are left out."""
        found = self._disks()
        yield Sample(DISKS, (), len(found))
        for disk in found[: self._settings.limit or None]:
            label = (disk.device,)
            yield Sample(READ_BYTES, label, disk.read_sectors * SECTOR_BYTES)
            yield Sample(WRITE_BYTES, label, disk.write_sectors * SECTOR_BYTES)
            yield Sample(READ_OPERATIONS, label, disk.read_operations)
            yield Sample(WRITE_OPERATIONS, label, disk.write_operations)
            yield Sample(BUSY_SECONDS, label, disk.busy_ms / _MILLISECONDS)

    def _disks(self) -> Sequence[DiskReading]:
        whole = _whole_disks(self._host)
        readings = {reading.device: reading for reading in parse_diskstats(self._file.read().decode(errors="replace"))}
        return [
            reading
            for device, reading in sorted(readings.items())
            if not self._exclude.fullmatch(device)
            and (device in whole if whole is not None else not _PARTITION.fullmatch(device))
        ]

    def close(self) -> None:
        """Give back the file."""
        self._file.close()


def _whole_disks(host: HostFS) -> frozenset[str] | None:
    """Return the devices that are no partitions, None where sysfs does not list them."""
    try:
        return frozenset(name.replace("!", "/") for name in host.list_dir("sys/block")) or None
    except Unavailable:
        return None


plugin = CollectorPlugin(
    name="disk",
    summary="Bytes, operations and busy time of the node's disks.",
    settings_class=DiskSettings,
    specs=(READ_BYTES, WRITE_BYTES, READ_OPERATIONS, WRITE_OPERATIONS, BUSY_SECONDS, DISKS),
    build=DiskCollector,
)
