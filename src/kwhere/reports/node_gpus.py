"""A node's GPUs: health, load and MIG layout from the store of series, who holds what from the account."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kwhere.core.timespan import Span
from kwhere.database.gpu_records import GpuHold
from kwhere.reports.gpu_words import cause_words, down_words, recovery_words
from kwhere.reports.node_charts import NewestValue, newest_values
from kwhere.reports.sources import Sources
from kwhere.reports.store_words import NO_STORE
from kwhere.series.charts import NodeRef

_A30_SLICES, _SLICES = 4, 7
"""Compute slices of a GPU that can be divided: all but the A30 have seven."""
_ONE_SCRAPE_SECONDS = 5.0
"""Samples of one scrape of a node lie closer together than this."""
_QUIET_EVENTS = frozenset({"gpu_idle", "clocks_setting", "display_clocks"})
"""Reasons for low clocks that nobody has to mend."""


@dataclass(frozen=True, slots=True)
class NodeInstance:
    """One MIG instance or partition, and who holds it."""

    uuid: str
    profile: str
    slices: int
    order: int
    holds: Sequence[GpuHold]

    @property
    def is_idle(self) -> bool:
        """Return whether it is held and nothing of its holders runs there."""
        return bool(self.holds) and all(hold.gpu.idle_since is not None for hold in self.holds)


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID that a GPU raised."""

    number: str
    meaning: str
    count: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """One GPU as it stands. None is not told."""

    index: str
    uuid: str
    model: str
    driver: str
    pci: str
    is_up: bool
    trouble: str
    """Why it gives no figures; empty while it does. Without samples nobody knows whether it is up."""
    utilisation_ratio: float | None
    power_watts: float | None
    limit_watts: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    temperature_celsius: float | None
    holds: Sequence[GpuHold]
    """Of the whole device."""
    instances: Sequence[NodeInstance]
    slices: int
    """Compute slices of the whole device; 1 where it is not divided."""
    faults: Sequence[str]
    slowed_by: Sequence[str]
    """What holds its clocks down now."""
    xids: Sequence[Xid]

    @property
    def is_held(self) -> bool:
        """Return whether anybody holds it or any part of it."""
        return bool(self.holds) or any(one.holds for one in self.instances)

    @property
    def is_idle(self) -> bool:
        """Return whether it is held as a whole and nothing of its holders runs there."""
        return bool(self.holds) and all(hold.gpu.idle_since is not None for hold in self.holds)

    @property
    def free_slices(self) -> int:
        """Return compute slices that belong to no instance."""
        return max(0, self.slices - sum(one.slices for one in self.instances)) if self.instances else 0


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest samples of a node's GPUs, by metric and device."""

    by_metric: Mapping[str, Mapping[str, Sequence[NewestValue]]]
    why_none: str
    """Why there may be no samples of a GPU."""

    def of(self, metric: str, uuid: str) -> Sequence[NewestValue]:
        return self.by_metric.get(metric, {}).get(uuid, ())

    def one(self, metric: str, uuid: str, **labels: str) -> float | None:
        """Return the value of the whole device's series with these labels."""
        for found in self.of(metric, uuid):
            if not found.labels.get("mig") and all(found.labels.get(name) == text for name, text in labels.items()):
                return found.value
        return None


_METRICS = (
    "kwhere_gpu_up",
    "kwhere_gpu_utilization_ratio",
    "kwhere_gpu_power_watts",
    "kwhere_gpu_power_limit_watts",
    "kwhere_gpu_memory_used_bytes",
    "kwhere_gpu_memory_total_bytes",
    "kwhere_gpu_temperature_celsius",
    "kwhere_gpu_instance_info",
    "kwhere_gpu_clock_event",
    "kwhere_gpu_ecc_errors_total",
    "kwhere_gpu_remapped_rows_pending",
    "kwhere_gpu_remapped_rows_failure",
    "kwhere_gpu_retired_pages_pending",
    "kwhere_gpu_recovery_action",
    "kwhere_gpu_xid_errors_total",
    "kwhere_gpu_xid_last_timestamp_seconds",
)


def node_gpus(sources: Sources, ref: NodeRef, span: Span) -> list[NodeGpu]:
    """Return the node's GPUs by index, as of the end of `span`; nothing for a node without any."""
    known = newest_values(sources, ref, "kwhere_gpu_info", span)
    ups = newest_values(sources, ref, "kwhere_gpu_up", span) if known else []
    holds = sources.account.gpu_holds(ref.cluster, ref.node)
    identities = {one.labels.get("uuid", ""): one.labels for one in (*ups, *known)}
    for hold in holds:
        labels = {"uuid": hold.gpu.device, "gpu": str(hold.gpu.index), "model": hold.gpu.model}
        identities.setdefault(hold.gpu.device, labels)
    if not identities:
        return []
    meanings = {
        one.labels.get("xid", ""): one.labels.get("meaning", "")
        for one in newest_values(sources, ref, "kwhere_gpu_xid_info", span)
    }
    by_metric = {metric: _by_device(newest_values(sources, ref, metric, span)) for metric in _METRICS}
    newest = _Newest(by_metric, NO_STORE if sources.series is None else "no samples of it in this span")
    found = [_gpu(labels, newest, holds, meanings) for labels in identities.values()]
    return sorted(found, key=lambda gpu: (int(gpu.index) if gpu.index.isdigit() else 1 << 30, gpu.uuid))


def _by_device(values: Sequence[NewestValue]) -> Mapping[str, Sequence[NewestValue]]:
    found: dict[str, list[NewestValue]] = defaultdict(list)
    for value in values:
        found[value.labels.get("uuid", "")].append(value)
    return found


def _gpu(labels: Mapping[str, str], newest: _Newest, holds: Sequence[GpuHold], meanings: Mapping[str, str]) -> NodeGpu:
    uuid = labels.get("uuid", "")
    # A reason is a label: a GPU that was down for a while has a series per reason, and only the newest of them holds.
    up = max(newest.of("kwhere_gpu_up", uuid), key=lambda one: one.at, default=None)
    is_down = up is not None and up.value != 1
    mine = [hold for hold in holds if hold.gpu.device == uuid]
    instances = _instances(newest.of("kwhere_gpu_instance_info", uuid), mine)
    model = labels.get("model", "")
    value: Callable[[str], float | None] = lambda name: None if is_down else newest.one(f"kwhere_gpu_{name}", uuid)  # noqa: E731
    return NodeGpu(
        index=labels.get("gpu", "?"),
        uuid=uuid,
        model=model or "model not told",
        driver=labels.get("driver", ""),
        pci=labels.get("pci", ""),
        is_up=not is_down,
        trouble=newest.why_none if up is None else down_words(up.labels.get("reason", "")) if is_down else "",
        utilisation_ratio=value("utilization_ratio"),
        power_watts=value("power_watts"),
        limit_watts=None if is_down else newest.one("kwhere_gpu_power_limit_watts", uuid, kind="enforced"),
        memory_used_bytes=value("memory_used_bytes"),
        memory_total_bytes=value("memory_total_bytes"),
        temperature_celsius=value("temperature_celsius"),
        holds=[hold for hold in mine if not hold.gpu.instance],
        instances=instances,
        slices=(_A30_SLICES if "A30" in model else _SLICES) if instances else 1,
        faults=list(_faults(newest, uuid)),
        slowed_by=[
            cause_words(event.labels.get("reason", ""))
            for event in newest.of("kwhere_gpu_clock_event", uuid)
            if not is_down and event.value == 1 and event.labels.get("reason") not in _QUIET_EVENTS
        ],
        xids=_xids(newest, uuid, meanings),
    )


def _instances(values: Sequence[NewestValue], holds: Sequence[GpuHold]) -> list[NodeInstance]:
    last_at = max((value.at for value in values), default=0.0)
    found = [
        NodeInstance(
            value.labels.get("mig", ""),
            value.labels.get("profile", ""),
            slices_of(value.labels.get("profile", "")),
            int(value.labels.get("gpu_instance", "") or 0) * 100 + int(value.labels.get("compute_instance", "") or 0),
            [hold for hold in holds if hold.gpu.instance == value.labels.get("mig", "")],
        )
        for value in values
        if value.at > last_at - _ONE_SCRAPE_SECONDS  # those of a layout before are gone
    ]
    return sorted(found, key=lambda one: one.order)


def slices_of(profile: str) -> int:
    """Return the compute slices of a profile: 3 of `3g.40gb`, 1 of `1c.3g.40gb`; 1 for what is not like that."""
    words = profile.split(".")
    for suffix in ("c", "g"):
        for word in words:
            if word.endswith(suffix) and word[:-1].isdigit():
                return int(word[:-1])
    return 1


def _faults(newest: _Newest, uuid: str) -> Iterator[str]:
    action = newest.one("kwhere_gpu_recovery_action", uuid)
    if action:
        yield recovery_words(action)
    if newest.one("kwhere_gpu_remapped_rows_failure", uuid):
        yield "a bad memory row could not be replaced: the board is to be changed"
    if newest.one("kwhere_gpu_remapped_rows_pending", uuid):
        yield "memory rows wait for a reset to be replaced"
    if newest.one("kwhere_gpu_retired_pages_pending", uuid):
        yield "memory pages wait for a reset to be retired"
    for period, words in (("volatile", "since the driver was loaded"), ("lifetime", "in its life")):
        errors = newest.one("kwhere_gpu_ecc_errors_total", uuid, kind="uncorrected", period=period)
        if errors:
            yield f"{errors:.0f} uncorrected memory {'error' if errors == 1 else 'errors'} {words}"


def _xids(newest: _Newest, uuid: str, meanings: Mapping[str, str]) -> list[Xid]:
    counts: dict[str, float] = defaultdict(float)
    lasts: dict[str, float] = {}
    for value in newest.of("kwhere_gpu_xid_errors_total", uuid):
        counts[value.labels.get("xid", "?")] += value.value
    for value in newest.of("kwhere_gpu_xid_last_timestamp_seconds", uuid):
        number = value.labels.get("xid", "?")
        lasts[number] = max(value.value, lasts.get(number, 0.0))
    found = [
        Xid(
            number,
            meanings.get(number, ""),
            round(count),
            datetime.fromtimestamp(lasts[number], UTC) if number in lasts else None,
        )
        for number, count in counts.items()
        if count
    ]
    return sorted(found, key=lambda xid: -(xid.last_at.timestamp() if xid.last_at else 0.0))


@dataclass(frozen=True, slots=True)
class GpuCounts:
    """How many of a node's GPUs are in which state."""

    present: int = 0
    down: int = 0
    held: int = 0
    idle: int = 0
    """Held, and nothing of their holders runs there."""
    free: int = 0
    instances: Mapping[str, int] = field(default_factory=dict)
    """`held`, `idle`, `free`: instances of divided GPUs."""


def count_gpus(gpus: Sequence[NodeGpu]) -> GpuCounts:
    """Return the states of GPUs; a divided one counts by its instances."""
    whole = [gpu for gpu in gpus if not gpu.instances]
    parts = [one for gpu in gpus for one in gpu.instances]
    return GpuCounts(
        present=len(gpus),
        down=sum(not gpu.is_up for gpu in gpus),
        held=sum(gpu.is_held for gpu in whole),
        idle=sum(gpu.is_idle for gpu in whole),
        free=sum(gpu.is_up and not gpu.is_held for gpu in whole),
        instances={
            "held": sum(bool(one.holds) for one in parts),
            "idle": sum(one.is_idle for one in parts),
            "free": sum(not one.holds for one in parts),
        }
        if parts
        else {},
    )
