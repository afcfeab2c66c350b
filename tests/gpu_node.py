"""A node whose GPUs and units a test names: devices by hand, units without cgroups, files below a directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.devices.gpu import DeviceState, GpuDevice, GpuInstance, GpuProcess, GpuSnapshot, LibraryState, Vendor
from kwhere.discovery.gpu_claims import GpuClaim
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gpu_names import GpuNames, NodeFacts, Place
from kwhere.discovery.unit_source import StepReading, TrackedUnit, UnitDetail

UUIDS = tuple(f"GPU-{n}{n}{n}{n}0000-0000-4000-8000-00000000000{n}" for n in range(8))
"""Of the GPUs by index; the first eight digits differ."""


def mig_uuid(device: int, number: int) -> str:
    """Return the uuid of an instance."""
    return f"MIG-{device}{number}aa0000-0000-5000-8000-000000000000"


def gpu(
    index: int,
    *,
    minor: int | None = -1,
    instances: Sequence[tuple[int, int, str]] = (),
    vendor: Vendor = Vendor.NVIDIA,
    pci: str = "",
    uuid: str = "",
    facts: Mapping[str, str] | None = None,
) -> GpuDevice:
    """Return a GPU; instances are (GPU instance, compute instance, profile). `minor` -1: the index."""
    made = tuple(
        GpuInstance(mig_uuid(index, number), f"MIG {profile}", profile, gi, ci, int(profile.rpartition("c.")[2][0]))
        for number, (gi, ci, profile) in enumerate(instances)
    )
    return GpuDevice(
        uuid or UUIDS[index],
        index,
        vendor,
        "A100",
        minor=index if minor == -1 else minor,
        pci=pci or f"00000000:{0x10 + index:02X}:00.0",
        mig=bool(made) or None,
        compute_slices=7 if made else 1,
        instances=made,
        facts=facts or {},
    )


def unit(
    manager: str,
    name: str,
    *,
    run: str | None = None,
    cgroup: str | None = None,
    node_name: str | None = None,
    **labels: str,
) -> TrackedUnit:
    """Return a live unit."""
    key = UnitKey(manager, name, run or f"{name}@1000")
    info = UnitInfo(node_name=node_name, labels=tuple(labels.items()))
    return TrackedUnit(key, cgroup, None, None, None, info, Allocation(), False, 0)


def job(number: int, **more: str | None) -> TrackedUnit:
    """Return a live SLURM job."""
    return unit("slurm", str(number), **more)  # type: ignore[arg-type]


def pod(namespace: str, name: str, uid: str = "") -> TrackedUnit:
    """Return a live pod, as its log directory names it."""
    key = uid or f"uid-{namespace}-{name}"
    return unit("kubernetes", key, run=key, kube_namespace=namespace, kube_pod=name)


def node(devices: Sequence[GpuDevice], *units: TrackedUnit, facts: NodeFacts | None = None) -> GpuNode:
    """Return what a source looks at."""
    return GpuNode(GpuNames(devices, facts), {one.key: one for one in units})


def held(claims: Sequence[GpuClaim | Hold]) -> dict[str, list[str]]:
    """Return the places each unit holds, by its id: `0` for the whole of a GPU of ours, else the uuids."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        place = claim.place if isinstance(claim, Hold) else Place(claim.device, claim.instance)
        found.setdefault(claim.unit.unit, []).append(place.instance or _short(place.device))
    return {name: sorted(places) for name, places in found.items()}


def _short(uuid: str) -> str:
    return str(UUIDS.index(uuid)) if uuid in UUIDS else uuid


@dataclass
class NamedGpus:
    """A `GpuSource` of devices given by name, with the processes that a test puts on them."""

    devices: Sequence[GpuDevice]
    processes: dict[str, tuple[GpuProcess, ...]] = field(default_factory=dict)
    vendor: Vendor = Vendor.NVIDIA
    interval_seconds: float = 1.0
    source: str = "nvml"

    def snapshot(self) -> GpuSnapshot:
        states = (
            DeviceState(one, up=True, processes=self.processes.get(one.uuid, ()), readings=None) for one in self.devices
        )
        return GpuSnapshot(self.vendor, LibraryState(up=True), tuple(states), answered=True)


@dataclass
class NamedUnits:
    """A `UnitSource` of the units that a test names."""

    units: dict[UnitKey, TrackedUnit] = field(default_factory=dict)
    owners: dict[int, UnitKey] = field(default_factory=dict)

    def add(self, *units: TrackedUnit) -> None:
        self.units.update((one.key, one) for one in units)

    def step(self, now_ns: int) -> StepReading:
        return StepReading({})

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        return dict(self.units)

    def owner_of(self, pid: int) -> UnitKey | None:
        return self.owners.get(pid)

    def detail(self, key: UnitKey) -> UnitDetail:
        return UnitDetail()

    def saved(self) -> Mapping[str, int]:
        return {}

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        pass

    def close(self) -> None:
        pass
