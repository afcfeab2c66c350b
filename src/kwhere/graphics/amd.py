"""AMD's GPUs by the files of the amdgpu driver, behind the `Library` seam: no library of AMD's is needed."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from kwhere.core.errors import Unavailable
from kwhere.devices.gpu import GpuProcess, ProcessKind
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceDown, DeviceReport, FieldReport, LibraryError, Opened, XidEvent
from kwhere.graphics.amd_energy import Accumulator, DeviceClock
from kwhere.graphics.amd_inventory import AmdCard, find_amd, read_table
from kwhere.graphics.amd_slow import put_limits, put_state
from kwhere.graphics.clients import Clients, ClientUse
from kwhere.graphics.field_sink import FieldSink
from kwhere.kernel import pci
from kwhere.kernel.amdgpu import DRIVER
from kwhere.kernel.amdgpu_metrics import PROCESSOR, GpuMetrics
from kwhere.kernel.drm import number_of, word_of
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.kfd import KfdProcess, read_processes
from kwhere.kernel.pci import PciGpu, is_asleep

_MICROWATTS = 1_000_000
_PERCENT = 100
POWERS = (GpuField.POWER_UW, GpuField.POWER_AVERAGE_UW, GpuField.POWER_INSTANT_UW)
_VERSION = "sys/module/amdgpu/version"


@dataclass(slots=True)
class _Device:
    """One GPU and what is remembered of it between readings."""

    card: AmdCard
    accumulator: Accumulator
    clock: DeviceClock = field(default_factory=DeviceClock)


class AmdLibrary:
    """Every GPU that amdgpu holds. Each is read on a thread of its own."""

    def __init__(self, fs: HostFS, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._fs = fs
        self._clock_ns = clock_ns
        self._clients = Clients(fs, DRIVER, clock_ns)
        self._devices: dict[str, _Device] = {}

    def open(self) -> Opened:
        """Return the GPUs that are here. Raises LibraryError (absent)."""
        cards = find_amd(self._fs)
        if not cards:
            raise LibraryError("absent", "amdgpu: expected a GPU that the driver amdgpu holds, found none")
        self._devices = {card.device.uuid: _Device(card, Accumulator(card.card.device)) for card in cards}
        return Opened(
            driver=word_of(self._fs, _VERSION) or word_of(self._fs, "proc/sys/kernel/osrelease"),
            version="sysfs",
            cuda="",
            devices=tuple(card.device for card in cards),
        )

    def read(self, uuid: str, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        """Return one report per group. Raises DeviceDown (asleep, lost)."""
        device = self._devices[uuid]
        card = device.card.card
        if not self._fs.exists(card.place):
            raise DeviceDown("lost")
        if is_asleep(self._fs, PciGpu(card.pci, pci.AMD, card.device)):
            raise DeviceDown("asleep")
        return [self._read_group(device, group) for group in groups]

    def events(self, timeout_seconds: float) -> Sequence[XidEvent]:
        """Raise LibraryError: the driver tells no events by files."""
        raise LibraryError("unsupported", f"amdgpu: no events to wait {timeout_seconds:g} s for")

    def close(self) -> None:
        """Nothing is held."""

    def _read_group(self, device: _Device, group: RateGroup) -> DeviceReport:
        sink, uuid = FieldSink(), device.card.device.uuid
        if group is RateGroup.FAST:
            return self._fast(device, sink)
        time_ns = self._clock_ns()
        if group is RateGroup.SLOW:
            put_limits(self._fs, device.card, sink)
            return DeviceReport(uuid, group, time_ns, sink.report())
        changed = self._look_again(device)
        put_state(self._fs, device.card, read_table(self._fs, device.card.card), sink)
        return DeviceReport(uuid, group, time_ns, sink.report(), device=device.card.device if changed else None)

    def _look_again(self, device: _Device) -> bool:
        """Describe a GPU anew whose partitions are others than before; return whether they are."""
        mode = word_of(self._fs, f"{device.card.card.place}/current_compute_partition").upper()
        if mode == device.card.device.facts.get("compute_partition", ""):
            return False
        fresh = next((card for card in find_amd(self._fs) if card.card.pci == device.card.card.pci), None)
        if fresh is None or fresh.device.uuid != device.card.device.uuid:
            return False
        device.card = fresh
        return True

    def _fast(self, device: _Device, sink: FieldSink) -> DeviceReport:
        time_ns = self._clock_ns()
        table, is_new = self._table(device)
        place = device.card.card.place
        if isinstance(table, GpuMetrics) or table.reason != PROCESSOR:
            put_power(self._fs, device.card.hwmon, table if isinstance(table, GpuMetrics) and is_new else None, sink)
        self._put_energy(device, table if isinstance(table, GpuMetrics) else None, sink, is_new=is_new)
        for name in POWERS:
            sink.put(name, None)
        if isinstance(table, GpuMetrics):
            sink.put_percent(GpuField.GPU_UTIL_PERCENT, table.gfx_activity_percent)
            sink.put_percent(GpuField.MEMORY_UTIL_PERCENT, table.umc_activity_percent)
        sink.put_percent(GpuField.GPU_UTIL_PERCENT, number_of(self._fs, f"{place}/gpu_busy_percent"))
        sink.put_percent(GpuField.MEMORY_UTIL_PERCENT, number_of(self._fs, f"{place}/mem_busy_percent"))
        put_memory(self._fs, place, sink)
        processes = self.processes(device.card)
        activities = table.partition_activity_percent if isinstance(table, GpuMetrics) else ()
        return DeviceReport(
            device.card.device.uuid,
            RateGroup.FAST,
            time_ns,
            sink.report(),
            instances=read_instances(device.card, activities, processes),
            processes=processes,
            processes_missing=None if processes is not None else Absence.PERMISSION,
        )

    def _table(self, device: _Device) -> tuple[GpuMetrics | Unavailable, bool]:
        """Return the table, or why there is none, and whether it is new; one that was seen before is read again."""
        found = read_table(self._fs, device.card.card)
        if isinstance(found, GpuMetrics) and not device.clock.advances(found.system_clock_ns, self._clock_ns()):
            found = read_table(self._fs, device.card.card)
            again = isinstance(found, GpuMetrics)
            return found, again and device.clock.advances(_clock_of(found), self._clock_ns())
        return found, isinstance(found, GpuMetrics)

    def _put_energy(self, device: _Device, table: GpuMetrics | None, sink: FieldSink, *, is_new: bool) -> None:
        """Put the accumulator. That of an old table is no reading of now; one that stays old or away has none."""
        dead = device.clock.is_dead(self._clock_ns())
        if table is None:
            passing = device.accumulator.worked and not dead
            sink.put(GpuField.ENERGY_UJ, None, Absence.ERROR if passing else Absence.UNSUPPORTED)
        elif not is_new:
            sink.put(GpuField.ENERGY_UJ, None, Absence.UNSUPPORTED if dead else Absence.NO_DATA)
        else:
            energy = device.accumulator.energy_uj(table.energy_accumulator, table.revision)
            why = energy if isinstance(energy, Absence) else Absence.UNSUPPORTED
            sink.put(GpuField.ENERGY_UJ, None if isinstance(energy, Absence) else energy, why)

    def processes(self, card: AmdCard) -> tuple[GpuProcess, ...] | None:
        """Return who runs on a GPU, by the compute driver and by open files; None where neither may be looked at."""
        use = self._clients.look()
        listed = read_processes(self._fs) if card.nodes else None
        if listed is None and not use.complete:
            return None
        return merge_processes(card, listed or (), use.of(card.card.pci))


def put_power(fs: HostFS, hwmon: str, table: GpuMetrics | None, sink: FieldSink) -> None:
    """Put the power that the board tells: older ones tell a mean, newer ones that of now; 0 W is not known."""
    watts = table.socket_power_w * _MICROWATTS if table is not None and table.socket_power_w else None
    is_average = table is not None and table.is_average
    average = number_of(fs, f"{hwmon}/power1_average") if hwmon else None
    instant = number_of(fs, f"{hwmon}/power1_input") if hwmon else None
    average = average or (watts if is_average else None)
    instant = instant or (None if is_average else watts)
    sink.put(GpuField.POWER_AVERAGE_UW, average or None)
    sink.put(GpuField.POWER_INSTANT_UW, instant or None)
    sink.put(GpuField.POWER_UW, average or instant or None)


def put_memory(fs: HostFS, place: str, sink: FieldSink) -> None:
    """Put the board's memory; of processors with graphics inside it is a part of the system's."""
    total = number_of(fs, f"{place}/mem_info_vram_total")
    used = number_of(fs, f"{place}/mem_info_vram_used")
    sink.put(GpuField.MEMORY_TOTAL_BYTES, total)
    sink.put(GpuField.MEMORY_USED_BYTES, used)
    sink.put(GpuField.MEMORY_FREE_BYTES, None if total is None or used is None else max(0, total - used))
    visible = number_of(fs, f"{place}/mem_info_vis_vram_total")
    visible_used = number_of(fs, f"{place}/mem_info_vis_vram_used")
    sink.put(GpuField.BAR1_TOTAL_BYTES, visible)
    sink.put(GpuField.BAR1_USED_BYTES, visible_used)
    known = visible is not None and visible_used is not None
    sink.put(GpuField.BAR1_FREE_BYTES, max(0, (visible or 0) - (visible_used or 0)) if known else None)


def merge_processes(
    card: AmdCard, listed: Sequence[KfdProcess], clients: Sequence[ClientUse]
) -> tuple[GpuProcess, ...]:
    """Return the processes on a GPU, each once per partition: the compute driver's, with what open files add."""
    by_pid = {use.pid: use for use in clients}
    found: list[GpuProcess] = []
    for process in listed:
        for node, instance in card.parts:
            if not process.runs_on(node.gpu_id):
                continue
            use = by_pid.pop(process.pid, None)
            memory = process.memory_bytes.get(node.gpu_id)
            busy = process.busy_compute_units.get(node.gpu_id)
            percent = None
            if busy is not None and node.compute_units:
                percent = min(_PERCENT, busy * _PERCENT // node.compute_units)
            found.append(
                GpuProcess(
                    pid=process.pid,
                    kind=ProcessKind.COMPUTE,
                    memory_bytes=_largest(memory, use.memory_bytes if use else None),
                    gpu_instance=instance.gpu_instance if instance is not None else None,
                    compute_instance=instance.compute_instance if instance is not None else None,
                    sm_percent=_largest(percent, use.percent if use else None),
                )
            )
    found += [
        GpuProcess(use.pid, ProcessKind.GRAPHICS, use.memory_bytes, sm_percent=use.percent) for use in by_pid.values()
    ]
    return tuple(sorted(found, key=lambda process: (process.pid, process.gpu_instance or 0)))


def _largest(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None


def read_instances(
    card: AmdCard, activities: Sequence[int | None], processes: Sequence[GpuProcess] | None
) -> dict[str, FieldReport]:
    """Return what is known of each partition: how busy its compute dies are, and the memory of its processes."""
    found = {}
    for place, instance in enumerate(card.device.instances):
        sink = FieldSink()
        percent = activities[place] if place < len(activities) else None
        sink.put_ratio(GpuField.PROF_GRAPHICS_RATIO, percent)
        sink.put_percent(GpuField.GPU_UTIL_PERCENT, percent)
        sink.put(GpuField.MEMORY_TOTAL_BYTES, instance.memory_bytes)
        if processes is not None:
            inside = [one.memory_bytes for one in processes if one.gpu_instance == instance.gpu_instance]
            known = [memory for memory in inside if memory is not None]
            sink.put(GpuField.MEMORY_USED_BYTES, sum(known) if len(known) == len(inside) else None, Absence.NO_DATA)
        found[instance.uuid] = sink.report()
    return found


def _clock_of(table: GpuMetrics | Unavailable) -> int | None:
    return table.system_clock_ns if isinstance(table, GpuMetrics) else None
