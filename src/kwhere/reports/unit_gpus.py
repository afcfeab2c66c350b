"""A unit's GPUs on its page: what each is called, what was held idle, what slowed them down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kwhere.core.quantities import joules, seconds
from kwhere.database.gpu_records import UnitGpu, without_rounding
from kwhere.reports.gpu_words import cause_words
from kwhere.series.charts import Chart
from kwhere.series.gpu_charts import GpuPlace

IDLE_SHOWN_SECONDS = 60.0
"""A GPU held idle for less is no news."""
THROTTLED_SHOWN_RATIO = 0.001
"""A cause that held the clocks for a smaller share of the time is no news."""
_GPU_CHARTS = frozenset({"gpu", "gpu_memory"})


def gpu_label(gpu: UnitGpu, gpus: Sequence[UnitGpu]) -> str:
    """Return what a GPU is called: `GPU 3`, `GPU 0 1g.10gb`, with its node where there are several.

    Instances of one profile on one device are told apart by their order.
    """
    words = [f"GPU {gpu.index}", gpu.profile]
    alike = [one for one in gpus if (one.node, one.device, one.profile) == (gpu.node, gpu.device, gpu.profile)]
    if len(alike) > 1:
        words.append(f"#{alike.index(gpu) + 1}")
    if len({one.node for one in gpus}) > 1:
        words.insert(0, gpu.node)
    return " ".join(word for word in words if word)


def gpu_places(gpus: Sequence[UnitGpu]) -> tuple[GpuPlace, ...]:
    """Return where a chart finds the devices' series."""
    return tuple(
        GpuPlace(gpu.node, gpu.device, gpu.instance, gpu_label(gpu, gpus), gpu.first_at, gpu.last_at) for gpu in gpus
    )


def named_gpus(chart: Chart, gpus: Sequence[UnitGpu]) -> Chart:
    """Return a chart of the unit's own GPU series with lines called as everywhere on the page, in that order.

    Busy time is told of whole devices: here it is a share of the part that was held.
    """
    if chart.name not in _GPU_CHARTS or not gpus:
        return chart
    whole = {(gpu.node, str(gpu.index), gpu.instance): gpu.held_ns / (gpu.allocated_ns or 1) for gpu in gpus}
    order = {(gpu.node, str(gpu.index), gpu.instance): gpu_label(gpu, gpus) for gpu in gpus}
    places = list(order)
    columns = []
    for column in chart.columns:
        place = (column.labels.get("node", ""), column.labels.get("gpu", ""), column.labels.get("mig", ""))
        rank = places.index(place) if place in order else len(places)
        values = _of_the_part_held(column.values, whole.get(place, 1.0)) if chart.name == "gpu" else column.values
        columns.append((rank, replace(column, label=order.get(place, column.label), values=values)))
    return replace(chart, columns=tuple(column for _, column in sorted(columns, key=lambda item: item[0])))


def _of_the_part_held(values: Sequence[float | None], held_per_device: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else without_rounding(value * held_per_device) for value in values)


def worded_causes(chart: Chart) -> Chart:
    """Return a chart of what held clocks down with causes in words: `GPU 0: its power cap`."""
    columns = [
        replace(column, label=f"{column.label.removesuffix(f' {cause}')}: {cause_words(cause)}")
        for column in chart.columns
        for cause in [column.labels.get("cause", "")]
    ]
    return replace(chart, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class HeldIdle:
    """A GPU that was held while nothing of the unit ran there."""

    label: str
    idle_seconds: float
    wasted_joules: float | None
    since: datetime | None
    """It still idles, since then."""


def held_idle(gpus: Sequence[UnitGpu]) -> list[HeldIdle]:
    """Return what was held idle for a while, longest first."""
    found = [
        HeldIdle(
            gpu_label(gpu, gpus),
            seconds(gpu.held_idle_ns),
            None if gpu.held_idle_uj is None else joules(gpu.held_idle_uj),
            gpu.idle_since,
        )
        for gpu in gpus
        if gpu.held_idle_ns is not None and seconds(gpu.held_idle_ns) >= IDLE_SHOWN_SECONDS
    ]
    return sorted(found, key=lambda item: (-item.idle_seconds, item.label))


def mean_by_place(chart: Chart | None) -> Mapping[tuple[str, str, str], float]:
    """Return the mean of each line over the time of which it is known, by node, device and instance."""
    found: dict[tuple[str, str, str], float] = {}
    for column in chart.columns if chart is not None else ():
        known = [value for value in column.values if value is not None]
        if known:
            place = (column.labels["node"], column.labels["uuid"], column.labels["mig"])
            found[place] = sum(known) / len(known)
    return found


def slowed_by(chart: Chart | None) -> list[tuple[str, str, float]]:
    """Return (GPU, cause in words, share of the time) of a chart with `worded_causes`, the largest cause first."""
    found: list[tuple[str, str, float]] = []
    for column in chart.columns if chart is not None else ():
        known = [value for value in column.values if value is not None]
        share = sum(known) / len(known) if known else 0.0
        if share >= THROTTLED_SHOWN_RATIO:
            gpu, _, cause = column.label.partition(": ")
            found.append((gpu, cause, min(1.0, share)))
    return sorted(found, key=lambda item: (item[0], -item[2]))
