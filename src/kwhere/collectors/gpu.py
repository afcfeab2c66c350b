"""Every GPU and its instances: power, use, memory, health. What cannot be read has no series, the rest has."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.collectors.gpu_metrics import CLOCK_EVENT, CLOCK_EVENTS, COUNTERS, GAUGES, GPU, PLACE, SPECS, Shown
from kwhere.collectors.monotone import MonotoneCounters
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, joules
from kwhere.core.terms import DomainKind
from kwhere.devices.gpu import DeviceState, GpuSnapshot, GpuSource, LinkReadings, Readings, Vendor, pci_address
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.xid import xid_meaning
from kwhere.kernel import pci
from kwhere.kernel.hostfs import HostFS
from kwhere.sampling.totals import TotalsBoard

INFO = MetricSpec("kwhere_gpu_info", Kind.INFO, "Who a GPU is.", (*GPU, "vendor", "model", "driver", "pci"))
INSTANCE = MetricSpec(
    "kwhere_gpu_instance_info",
    Kind.INFO,
    "Who a MIG instance or partition is.",
    (*PLACE, "profile", "gpu_instance", "compute_instance"),
)
UP = MetricSpec("kwhere_gpu_up", Kind.GAUGE, "Whether a GPU answers.", (*GPU, "reason"))
EXPECTED = MetricSpec(
    "kwhere_gpus_expected", Kind.GAUGE, "GPUs that the PCI bus lists, and those that were here before.", ("vendor",)
)
PRESENT = MetricSpec("kwhere_gpus_present", Kind.GAUGE, "GPUs that the vendor's library lists now.", ("vendor",))
LIBRARY_UP = MetricSpec(
    "kwhere_gpu_library_up", Kind.GAUGE, "Whether the vendor's library works.", ("vendor", "reason")
)
LIBRARY = MetricSpec(
    "kwhere_gpu_library_info", Kind.INFO, "Versions of driver and library.", ("vendor", "driver", "version", "cuda")
)
ENERGY = MetricSpec(
    "kwhere_gpu_energy_joules_total", Kind.COUNTER, "Energy of the whole GPU, as the ledger books it.", GPU
)
RESETS = MetricSpec(
    "kwhere_gpu_counter_resets_total", Kind.COUNTER, "How often counters of a GPU were seen to begin anew.", GPU
)
ACTIVITY_SOURCE = MetricSpec(
    "kwhere_gpu_activity_source_info", Kind.INFO, "Who tells how active the GPU's parts are.", (*PLACE, "source")
)
_XID_LABELS = (*GPU, "gpu_instance", "xid")
XIDS = MetricSpec("kwhere_gpu_xid_errors_total", Kind.COUNTER, "XIDs that a GPU raised.", _XID_LABELS)
XID_TIME = MetricSpec(
    "kwhere_gpu_xid_last_timestamp_seconds", Kind.GAUGE, "When a GPU raised an XID last, Unix time.", _XID_LABELS
)
XID_INFO = MetricSpec("kwhere_gpu_xid_info", Kind.INFO, "What an XID means.", ("xid", "meaning"))
LINK_UP = MetricSpec("kwhere_gpu_nvlink_up", Kind.GAUGE, "Whether an NVLink is up.", (*GPU, "link"))
LINK_SENT = MetricSpec(
    "kwhere_gpu_nvlink_link_transmit_bytes_total", Kind.COUNTER, "Data bytes sent over one NVLink.", (*GPU, "link")
)
LINK_RECEIVED = MetricSpec(
    "kwhere_gpu_nvlink_link_receive_bytes_total", Kind.COUNTER, "Data bytes received over one NVLink.", (*GPU, "link")
)
_LINK_BYTES = {GpuField.NVLINK_TX_BYTES: LINK_SENT, GpuField.NVLINK_RX_BYTES: LINK_RECEIVED}
_BUS_NS = 60 * NANOSECONDS_PER_SECOND
_DRIVERS = {Vendor.NVIDIA: (pci.NVIDIA, "nvidia"), Vendor.AMD: (pci.AMD, "amdgpu")}
"""Kernel drivers whose every GPU the vendor's library should list. A processor's own graphics of Intel are not counted
by themselves."""


class GpuSettings(CollectorSettings):
    """How much of each GPU is shown."""

    detailed: bool = Field(
        default=False,
        description="Whether also limits, thresholds, BAR1 memory, tensor kinds and each NVLink are shown: about 35"
        " series more per GPU, and 3 more per NVLink.",
    )


class GpuCollector:
    """Shows what the watches have read; a scrape asks no GPU."""

    def __init__(self, context: CollectorContext, settings: GpuSettings) -> None:
        """Raises Unavailable where no vendor has a GPU here."""
        if not context.gpus:
            raise Unavailable("absent", "gpu: expected a GPU, found none")
        self._sources: Sequence[GpuSource] = context.gpus
        self._host = context.host
        self._clock = context.clock
        self._bus: dict[Vendor, frozenset[str]] = {}
        self._bus_read_ns: int | None = None
        self._totals: TotalsBoard | None = context.totals
        self._gauges, self._counters = (
            tuple(shown for shown in table if settings.detailed or not shown.detailed) for table in (GAUGES, COUNTERS)
        )
        self._has_links = settings.detailed
        self._sums = MonotoneCounters()

    def collect(self) -> Iterator[Sample]:
        """Yield every GPU. XIDs come first: they are shown whatever becomes of the rest."""
        snapshots = [source.snapshot() for source in self._sources]
        yield from _xids(snapshots)
        for found in snapshots:
            yield from _library(found, _expected(found, self._on_bus(found.vendor)))
            for state in found.devices:
                yield from self._device(state, found.library.driver)
        yield from self._energy(snapshots)
        devices = {state.device.uuid: state.device for found in snapshots for state in found.devices}
        for uuid, count in self._sums.end_round().items():
            if uuid in devices:
                yield Sample(RESETS, (str(devices[uuid].index), uuid), count)

    def close(self) -> None:
        """Hold nothing: the watches have the handles."""

    def _on_bus(self, vendor: Vendor) -> frozenset[str]:
        """Return the vendor's GPUs on the PCI bus, looked at once a minute: it has hundreds of other devices."""
        now_ns = self._clock.monotonic_ns()
        if self._bus_read_ns is None or now_ns - self._bus_read_ns >= _BUS_NS:
            self._bus, self._bus_read_ns = {}, now_ns
        if vendor not in self._bus:
            self._bus[vendor] = on_bus(self._host, vendor)
        return self._bus[vendor]

    def _device(self, state: DeviceState, driver: str) -> Iterator[Sample]:
        """Yield one device. Of one that does not answer only who it is: what was read of it before is not now."""
        device = state.device
        names = (str(device.index), device.uuid)
        address = pci_address(device.pci) if device.pci else ""
        yield Sample(INFO, (*names, device.vendor.value, device.model, driver, address), 1)
        yield Sample(UP, (*names, state.reason), int(state.up))
        if not state.up or state.readings is None:
            return
        yield from self._readings((*names, ""), state.readings)
        reasons = state.readings.integer(GpuField.CLOCK_EVENT_REASONS)
        if reasons is not None:
            for bit, word in CLOCK_EVENTS.items():
                yield Sample(CLOCK_EVENT, (*names, word), int(bool(reasons & bit)))
        for one in state.instances:
            instance = one.instance
            place = (*names, instance.uuid)
            ids = (str(instance.gpu_instance), str(instance.compute_instance))
            yield Sample(INSTANCE, (*place, instance.profile, *ids), 1)
            yield from self._readings(place, one.readings)
        for link in state.links if self._has_links else ():
            yield from self._link(names, link)

    def _readings(self, place: tuple[str, str, str], readings: Readings) -> Iterator[Sample]:
        values = readings.values
        for shown in self._gauges:
            value = values.get(shown.field)
            if value is not None:
                yield Sample(shown.spec, place + shown.more, value / shown.divisor if shown.divisor != 1 else value)
        for shown in self._counters:
            value = values.get(shown.field)
            if value is not None:
                yield self._counted(shown, place, int(value))
        if readings.activity:
            yield Sample(ACTIVITY_SOURCE, (*place, readings.activity), 1)

    def _counted(self, shown: Shown, place: tuple[str, str, str], raw: int) -> Sample:
        total = self._sums.take(place[1], (shown.field, place[2]), raw)
        return Sample(shown.spec, place + shown.more, total / shown.divisor if shown.divisor != 1 else total)

    def _link(self, names: tuple[str, str], link: LinkReadings) -> Iterator[Sample]:
        place = (*names, str(link.link))
        if link.up is not None:
            yield Sample(LINK_UP, place, int(link.up))
        for name, spec in _LINK_BYTES.items():
            value = link.values.get(name)
            if value is not None:
                yield Sample(spec, place, self._sums.take(names[1], (name, link.link), int(value)))

    def _energy(self, snapshots: Sequence[GpuSnapshot]) -> Iterator[Sample]:
        """Yield the energy that the meters counted since the process began, of GPUs that are up."""
        totals = self._totals.snapshot() if self._totals is not None else None
        if totals is None:
            return
        up = {s.device.uuid: str(s.device.index) for found in snapshots for s in found.devices if s.up}
        created_s = totals.created_utc_ns / NANOSECONDS_PER_SECOND
        for (_, domain), energy_uj in totals.meters_uj.items():
            if domain.kind is DomainKind.GPU and domain.index in up:
                yield Sample(ENERGY, (up[domain.index], domain.index), joules(energy_uj), created_s)


def expected_gpus(host: HostFS, found: GpuSnapshot) -> int:
    """Return how many GPUs of the vendor should be here: on the bus with its driver, or known from before."""
    return _expected(found, on_bus(host, found.vendor))


def on_bus(host: HostFS, vendor: Vendor) -> frozenset[str]:
    """Return the addresses of the vendor's GPUs that have its driver; nothing where that does not tell."""
    if vendor not in _DRIVERS:
        return frozenset()
    number, driver = _DRIVERS[vendor]
    return frozenset(gpu.address for gpu in pci.find_pci_gpus(host, number) if gpu.driver == driver)


def _expected(found: GpuSnapshot, addresses: frozenset[str]) -> int:
    return len(addresses | {pci_address(state.device.pci) or state.device.uuid for state in found.devices})


def _library(found: GpuSnapshot, expected: int) -> Iterator[Sample]:
    vendor, library = found.vendor.value, found.library
    if not found.answered:
        return
    yield Sample(LIBRARY_UP, (vendor, library.reason), int(library.up))
    if library.driver or library.version:
        yield Sample(LIBRARY, (vendor, library.driver, library.version, library.cuda), 1)
    yield Sample(EXPECTED, (vendor,), expected)
    yield Sample(PRESENT, (vendor,), sum(_is_present(state) for state in found.devices) if library.up else 0)


def _is_present(state: DeviceState) -> bool:
    return state.reason not in ("absent", "lost")


def _xids(snapshots: Sequence[GpuSnapshot]) -> Iterator[Sample]:
    """Yield XIDs of every GPU, also of one that is lost: that is when they are wanted."""
    meanings: Mapping[int, str] = {
        one.xid: xid_meaning(one.xid) for found in snapshots for state in found.devices for one in state.xids
    }
    for found in snapshots:
        for state in found.devices:
            names = (str(state.device.index), state.device.uuid)
            for one in state.xids:
                place = (*names, "" if one.gpu_instance is None else str(one.gpu_instance), str(one.xid))
                yield Sample(XIDS, place, one.count)
                yield Sample(XID_TIME, place, one.last_utc_ns / NANOSECONDS_PER_SECOND)
    for xid, meaning in sorted(meanings.items()):
        yield Sample(XID_INFO, (str(xid), meaning), 1)


plugin = CollectorPlugin(
    name="gpu",
    summary="Power, use, memory and health of every GPU and of its instances.",
    settings_class=GpuSettings,
    specs=(
        INFO,
        INSTANCE,
        UP,
        EXPECTED,
        PRESENT,
        LIBRARY_UP,
        LIBRARY,
        ENERGY,
        RESETS,
        *SPECS,
        ACTIVITY_SOURCE,
        XIDS,
        XID_TIME,
        XID_INFO,
        LINK_UP,
        LINK_SENT,
        LINK_RECEIVED,
    ),
    build=GpuCollector,
)
