"""Snapshots by hand: what the device layer would say, without a library."""

from collections.abc import Mapping, Sequence

from kwhere.dcgm.counters import CounterSet, parse_counters
from kwhere.dcgm.holdings import Holders
from kwhere.dcgm.page import Page, PageOptions
from kwhere.dcgm.sharing import Sharing
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import (
    DeviceState,
    GpuDevice,
    GpuInstance,
    GpuProcess,
    GpuSnapshot,
    InstanceState,
    LibraryState,
    LinkReadings,
    Readings,
    Vendor,
    XidCount,
)
from kwhere.devices.gpu_fields import GpuField

Values = Mapping[GpuField, int | float]
SECOND = 1_000_000_000
PLAIN = PageOptions()


def instance(gi: int, values: Values | None = None, *, ci: int = 0, profile: str = "1g.5gb") -> InstanceState:
    """Return a MIG device."""
    uuid = f"MIG-{gi}-{ci}"
    return InstanceState(GpuInstance(uuid, f"A MIG {profile}", profile, gi, ci, 1), Readings(1, dict(values or {})))


def device(
    index: int = 0,
    values: Values | None = None,
    *,
    up: bool = True,
    instances: Sequence[InstanceState] = (),
    model: str = "NVIDIA A100",
    xids: Sequence[XidCount] = (),
    processes: Sequence[GpuProcess] | None = None,
    links: Sequence[LinkReadings] = (),
    medium_ns: int = 0,
) -> DeviceState:
    """Return a GPU; one with instances is divided."""
    found = GpuDevice(
        f"GPU-{index}",
        index,
        Vendor.NVIDIA,
        model,
        pci=f"00000000:{index:02X}:00.0",
        mig=bool(instances),
        instances=tuple(one.instance for one in instances),
    )
    return DeviceState(
        found,
        up=up,
        reason="" if up else "lost",
        readings=Readings(1, dict(values or {}), medium_ns=medium_ns),
        instances=tuple(instances),
        processes=None if processes is None else tuple(processes),
        links=tuple(links),
        xids=tuple(xids),
    )


def snapshot(*devices: DeviceState) -> GpuSnapshot:
    """Return a node's GPUs."""
    return GpuSnapshot(Vendor.NVIDIA, LibraryState(up=True, driver="550.54.15"), devices, answered=True)


def counters(*rows: str) -> CounterSet:
    """Return the counters of rows `NAME` or `NAME, type`."""
    lines = [row if "," in row else f"{row}, gauge" for row in rows]
    return parse_counters("\n".join(f"{line}, help" for line in lines).encode(), "rows")


def samples(
    found: GpuSnapshot,
    *rows: str,
    options: PageOptions = PLAIN,
    watcher: Watcher | None = None,
    holders: Holders | None = None,
    sharing: Sharing | None = None,
) -> list[str]:
    """Return the lines of the page that are no comment."""
    page = Page(options, watcher or Watcher()).render(found, counters(*rows), holders, sharing).decode()
    return [line for line in page.split("\n") if line and not line.startswith("#")]


def values_of(lines: Sequence[str]) -> list[str]:
    """Return the value of each line."""
    return [line.rpartition(" ")[2] for line in lines]
