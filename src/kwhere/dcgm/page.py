"""The page of `/metrics`, line by line as dcgm-exporter writes it, with label values escaped and no line twice."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kwhere.dcgm.counters import Computed, Counter, CounterSet
from kwhere.dcgm.device_choice import DeviceChoice
from kwhere.dcgm.entities import Entity, devices, entities
from kwhere.dcgm.fields import MEBI, Value
from kwhere.dcgm.fields import last_xid as newest_xid
from kwhere.dcgm.health import judge
from kwhere.dcgm.holdings import NOBODY, Holders, Holding, Labels, NoJobs
from kwhere.dcgm.names import HostnameLabel, MappingLabels, MigValues
from kwhere.dcgm.sharing import PodUse, Sharing
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import GpuSnapshot
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.xid import xid_meaning
from kwhere.exposition.text import escaped_label

NVLINK_BYTES = "dcgm_nvlink_bytes_total"
"""The true counter beside DCGM's "bandwidth", which is typed counter and is a rate."""
HOLDER_INFO = "dcgm_gpu_holder_info"
BANDWIDTH_TOTAL, GPU_UTIL, FB_USED, POWER, POWER_INSTANT, ENERGY = 449, 203, 252, 155, 157, 156
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How lines are written."""

    hostname: str = ""
    """Empty: no label."""
    hostname_label: HostnameLabel = HostnameLabel.UPPER
    old_namespace: bool = False
    replace_blanks: bool = False
    choice: DeviceChoice = field(default_factory=DeviceChoice)
    mig_values: MigValues = MigValues.REPEAT
    mapping_labels: MappingLabels = MappingLabels.SERIES
    virtual_gpus: bool = False
    windows_ms: tuple[int, int] = (300_000, 300_000)
    """Of XIDs and of clock events."""


@dataclass(slots=True)
class _Family:
    """One metric: its head, and its lines, each label set once."""

    name: str
    kind: str
    help: str
    lines: dict[str, str] = field(default_factory=dict)

    def add(self, labels: str, value: str) -> None:
        self.lines.setdefault(labels, value)

    def text(self) -> str:
        if not self.lines:
            return ""
        text = self.help.replace("\\", "\\\\").replace("\n", "\\n")
        head = f"# HELP {self.name} {text}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join([f"{self.name}{{{labels}}} {value}\n" for labels, value in self.lines.items()])


class _Line:
    """An entity and the parts of its lines that all its families share."""

    def __init__(self, entity: Entity, options: PageOptions, labels: Sequence[Counter], holders: Holders) -> None:
        self.entity = entity
        self.head = _head(entity, options)
        self.labels: Labels = tuple(
            (one.name, text) for one in labels if one.field and (text := number(one.field.read(entity))) is not None
        )
        self.middle = _joined(self.labels)
        on_series = options.mapping_labels is not MappingLabels.INFO
        self.holdings: Sequence[Holding] = holders.of(entity) if on_series else NOBODY
        self.tails = [_joined(holding.labels) for holding in self.holdings]

    def plain(self) -> str:
        """Return the labels without any holder."""
        return self.head + self.middle

    def each(self, more: Labels = (), last: Labels = ()) -> Iterator[tuple[Holding, str]]:
        """Yield the labels for each holder; `more` stands among the label fields, `last` among the attributes."""
        middle = _joined(tuple(sorted(self.labels + more))) if more else self.middle
        for holding, tail in zip(self.holdings, self.tails, strict=True):
            end = _joined(tuple(sorted({**dict(last), **dict(holding.labels)}.items()))) if last else tail
            yield holding, self.head + middle + end


class Page:
    """Writes the page of one node."""

    def __init__(self, options: PageOptions, watcher: Watcher) -> None:
        self._options = options
        self._watcher = watcher

    def render(
        self,
        snapshot: GpuSnapshot,
        counters: CounterSet,
        holders: Holders | None = None,
        sharing: Sharing | None = None,
    ) -> bytes:
        """Return the page of a snapshot, under the label sets of the moment."""
        held = holders if holders is not None else Holders((), NoJobs())
        found = entities(snapshot, self._options.choice, self._watcher.rates)
        lines = [_Line(entity, self._options, counters.labels, held) for entity in found]
        whole = [
            _Line(entity, self._options, counters.labels, held) for entity in devices(snapshot, self._options.choice)
        ]
        once = self._options.mig_values is MigValues.ONCE
        families = [self._info(lines, held)]
        for counter in counters.counters:
            families += self._families(counter, lines, whole, sharing, once=once)
        return "".join(family.text() for family in families).encode()

    def _families(
        self, counter: Counter, lines: list[_Line], whole: list[_Line], sharing: Sharing | None, *, once: bool
    ) -> Iterator[_Family]:
        family = _Family(counter.name, counter.kind, counter.help)
        if counter.computed is not None:
            self._compute(counter.computed, family, lines, whole)
        elif counter.is_xid:
            _write_xids(family, lines)
        elif counter.field is not None and counter.field.link is not None:
            self._write_links(family, counter.field.link, whole)
        elif counter.field is not None:
            shown = _once(lines, whole) if once and not counter.field.is_own else lines
            self._write(family, counter, shown, sharing)
        yield family
        if counter.field is not None and counter.field.number == BANDWIDTH_TOTAL:
            yield self._link_bytes(_once(lines, whole))

    def _write(self, family: _Family, counter: Counter, lines: Iterable[_Line], sharing: Sharing | None) -> None:
        assert counter.field is not None
        for line in lines:
            value = counter.field.read(line.entity)
            text = number(value)
            if self._options.virtual_gpus and sharing is not None and line.entity.instance is None:
                if self._write_shares(family, counter.field.number, line, value, sharing):
                    continue
            elif self._options.virtual_gpus and sharing is not None and counter.field.number == FB_USED:
                self._write_uses(family, FB_USED, line, text, sharing)
                continue
            if text is not None:
                for _, labels in line.each():
                    family.add(labels, text)

    def _write_shares(
        self, family: _Family, field_number: int, line: _Line, value: Value | None, sharing: Sharing
    ) -> bool:
        """Write a device's value split over its pods; False where it is one that is shown in full to each."""
        pods = [holding for holding in line.holdings if holding.pod is not None]
        if not pods or field_number not in (GPU_UTIL, FB_USED, POWER, POWER_INSTANT, ENERGY):
            return False
        if field_number in (GPU_UTIL, FB_USED):
            self._write_uses(family, field_number, line, number(value), sharing)
            return True
        if value is None or isinstance(value, str):
            return True
        weights = sharing.weights(line.entity.state)
        for holding, labels in line.each():
            pod = holding.pod_uid or "/".join(holding.pod or ())
            if field_number == ENERGY:
                energy = self._watcher.pod_energy_mj(line.entity.state.device.uuid, pod)
                share: Value | None = None if energy is None else energy // holding.replicas
            else:
                share = float(value) * weights.get(pod, 0.0) / holding.replicas
            text = number(share)
            if text is not None:
                family.add(labels, text)
        return True

    def _write_uses(self, family: _Family, field_number: int, line: _Line, text: str | None, sharing: Sharing) -> None:
        """Write the device's own value once without a holder, and beside it what each pod's processes use."""
        if text is not None:
            family.add(line.plain(), text)
        seen: set[tuple[str, str]] = set()
        for holding, labels in line.each():
            if holding.pod is None or holding.pod in seen:
                continue
            seen.add(holding.pod)
            use = sharing.use(line.entity, holding.pod_uid)
            value = _used(use, field_number)
            if value is not None:
                family.add(re.sub(r',vgpu="[^"]*"', "", labels), str(value))

    def _compute(self, computed: Computed, family: _Family, lines: list[_Line], whole: list[_Line]) -> None:
        if computed is Computed.HEALTH:
            for line in whole:
                for health in judge(line.entity, self._watcher):
                    more = (("health_error_code", health.code), ("health_watch", health.watch))
                    _write_all(family, line, more, health.value)
        elif computed is Computed.XID_COUNT:
            for line in lines:
                self._write_xid_counts(family, line)
        elif computed is Computed.CLOCK_EVENTS:
            for line in lines:
                self._write_clock_events(family, line)

    def _write_xid_counts(self, family: _Family, line: _Line) -> None:
        """Write the XIDs of the window, also of a GPU that does not answer any more."""
        window = ("window_size_in_ms", str(self._options.windows_ms[0]))
        counts = self._watcher.xid_counts(*line.entity.key)
        for xid, count in sorted(counts.items()):
            _write_all(family, line, (window, ("xid", str(xid))), count)
        if not counts and line.entity.state.up:
            _write_all(family, line, (window,), 0)

    def _write_clock_events(self, family: _Family, line: _Line) -> None:
        events = self._watcher.clock_events(line.entity.key[0]) if line.entity.state.up else None
        window = ("window_size_in_ms", str(self._options.windows_ms[1]))
        for event, count in (events or {}).items():
            _write_all(family, line, (("clock_event", event), window), count)
        if events is not None and not events:
            _write_all(family, line, (window,), 0)

    def _write_links(self, family: _Family, of: GpuField, lines: list[_Line]) -> None:
        for line in lines:
            state = line.entity.state
            for link in state.links if state.up else ():
                value = link.values.get(of)
                if value is not None:
                    labels = _link_head(line.entity, link.link, self._options) + line.middle
                    family.add(labels, str(int(value)))

    def _link_bytes(self, lines: list[_Line]) -> _Family:
        family = _Family(NVLINK_BYTES, "counter", "Bytes over all NVLinks, sent and received, without protocol.")
        for line in lines:
            sent = line.entity.whole.integer(GpuField.NVLINK_TX_BYTES)
            received = line.entity.whole.integer(GpuField.NVLINK_RX_BYTES)
            if sent is not None and received is not None:
                family.add(line.plain(), str(sent + received))
        return family

    def _info(self, lines: list[_Line], holders: Holders) -> _Family:
        """Return who holds what as series of their own, where that is asked for: all others then keep their labels."""
        family = _Family(HOLDER_INFO, "gauge", "Who holds a GPU: join on UUID and GPU_I_ID.")
        if self._options.mapping_labels is not MappingLabels.SERIES:
            for line in lines:
                for holding in holders.of(line.entity):
                    if holding.labels:
                        family.add(line.head + _joined(holding.labels), "1")
        return family


def number(value: Value | None) -> str | None:
    """Return a value as the exporter prints it: whole numbers plain, others with six places; None is no sample."""
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else None
    return None if value is None else str(value)


def _used(use: PodUse | None, field_number: int) -> int | None:
    if use is None:
        return None
    if field_number == FB_USED:
        return None if use.memory_bytes is None else use.memory_bytes // MEBI
    return use.sm_percent


def _write_all(family: _Family, line: _Line, more: Labels, value: int) -> None:
    for _, labels in line.each(more):
        family.add(labels, str(value))


def _write_xids(family: _Family, lines: list[_Line]) -> None:
    for line in lines:
        newest = newest_xid(line.entity)
        xid = newest.xid if newest is not None else 0
        if newest is None and not line.entity.state.up:
            continue
        for _, labels in line.each(last=(("err_code", str(xid)), ("err_msg", xid_meaning(xid)))):
            family.add(labels, str(xid))


def _once(lines: list[_Line], whole: list[_Line]) -> list[_Line]:
    """Return one line per device: what the instances of a divided GPU would only repeat."""
    shown = {line.entity.key[0] for line in lines}
    return [line for line in whole if line.entity.key[0] in shown]


def _head(entity: Entity, options: PageOptions) -> str:
    device = entity.state.device
    uuid = "uuid" if options.old_namespace else "UUID"
    model = _BLANKS.sub("-", device.model.strip()) if options.replace_blanks else device.model
    text = (
        f'gpu="{device.index}",{uuid}="{escaped_label(device.uuid)}",pci_bus_id="{escaped_label(device.pci)}",'
        f'device="nvidia{device.index}",modelName="{escaped_label(model)}"'
    )
    if entity.instance is not None:
        profile = escaped_label(entity.profile)
        text += f',GPU_I_PROFILE="{profile}",GPU_I_ID="{entity.instance.gpu_instance}"'
    return text + _hostname(options)


def _link_head(entity: Entity, link: int, options: PageOptions) -> str:
    device = entity.state.device
    model = _BLANKS.sub("-", device.model.strip()) if options.replace_blanks else device.model
    host = f',hostname="{escaped_label(options.hostname)}"' if options.hostname else ""
    return (
        f'nvlink="{link}",gpu="{device.index}",gpu_uuid="{escaped_label(device.uuid)}",'
        f'pci_bus_id="{escaped_label(device.pci)}",device="nvidia{device.index}",model_name="{escaped_label(model)}"{host}'
    )


def _hostname(options: PageOptions) -> str:
    if not options.hostname:
        return ""
    return "".join(f',{name}="{escaped_label(options.hostname)}"' for name in options.hostname_label.names)


def _joined(labels: Labels) -> str:
    return "".join([f',{name}="{escaped_label(value)}"' for name, value in labels])
