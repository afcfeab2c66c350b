"""The GPU panel of a unit's page: a row per device or instance from the account, what idled, what slowed it down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kwhere.core.quantities import joules, seconds
from kwhere.database.gpu_records import UnitGpu
from kwhere.database.records import UnitRecord
from kwhere.reports.gpu_words import holder_words
from kwhere.reports.unit_gpus import HeldIdle, gpu_label, held_idle, mean_by_place, slowed_by
from kwhere.series.charts import Chart
from kwhere.web.formatting import BarPiece, Column, bar_pieces, column_of, percent

NO_TENSOR = (
    "no samples of it: NVIDIA's Hopper and newer tell it by themselves, Ampere and older only through DCGM"
    " or a dcgm-exporter on the node"
)
NO_USE = "nobody knows: no utilisation is told for a part of this GPU"


@dataclass(frozen=True, slots=True)
class UnitGpuRow:
    """One GPU or instance. `busy` and `tensor` are shares of the time it was held, in words."""

    label: str
    kind: str
    uuid: str
    holder: str
    is_held: bool
    first_at: datetime
    last_at: datetime
    held_seconds: float
    busy: str
    tensor: str
    pieces: Sequence[BarPiece]
    memory_peak_bytes: float | None
    memory_total_bytes: float | None
    energy_joules: float | None


@dataclass(frozen=True, slots=True)
class Slowed:
    """What held a GPU's clocks down, and for how much of the time."""

    label: str
    causes: str


@dataclass(frozen=True, slots=True)
class UnitGpuPanel:
    """All of the panel."""

    rows: Sequence[UnitGpuRow]
    energy_column: Column
    memory_column: Column
    idle: Sequence[HeldIdle]
    slowed: Sequence[Slowed]
    summary: str
    has_tensor: bool


def unit_gpu_panel(record: UnitRecord, charts: Sequence[Chart]) -> UnitGpuPanel | None:
    """Return the panel; None for a unit that never held a GPU."""
    if not record.gpus:
        return None
    by_name = {chart.name: chart for chart in charts}
    tensor = mean_by_place(by_name.get("gpu_tensor"))
    rows = [_row(gpu, record.gpus, tensor) for gpu in record.gpus]
    memory = [row.memory_total_bytes or row.memory_peak_bytes for row in rows]
    return UnitGpuPanel(
        rows=rows,
        energy_column=column_of([row.energy_joules for row in rows], "energy"),
        memory_column=column_of(memory, "bytes"),
        idle=held_idle(record.gpus),
        slowed=_slowed(by_name.get("gpu_throttling")),
        summary=_summary(record),
        has_tensor=bool(tensor),
    )


def _row(gpu: UnitGpu, gpus: Sequence[UnitGpu], tensor: Mapping[tuple[str, str, str], float]) -> UnitGpuRow:
    ratio = gpu.utilisation_ratio
    mean = tensor.get((gpu.node, gpu.device, gpu.instance))
    pieces = bar_pieces([("fill-gpu", f"busy {percent(ratio)} of the time held", ratio)], 1.0)
    return UnitGpuRow(
        label=gpu_label(gpu, gpus),
        kind=gpu.kind,
        uuid=gpu.instance or gpu.device,
        holder=holder_words(gpu.source),
        is_held=gpu.is_held,
        first_at=gpu.first_at,
        last_at=gpu.last_at,
        held_seconds=seconds(gpu.held_ns),
        busy="" if ratio is None else percent(ratio),
        tensor="" if mean is None else percent(mean),
        pieces=pieces,
        memory_peak_bytes=gpu.memory_peak_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
        energy_joules=None if gpu.energy_uj is None else joules(gpu.energy_uj),
    )


def _slowed(chart: Chart | None) -> list[Slowed]:
    by_label: dict[str, list[str]] = {}
    for label, cause, share in slowed_by(chart):
        by_label.setdefault(label, []).append(f"{cause} {percent(share)} of the time")
    return [Slowed(label, ", ".join(causes)) for label, causes in by_label.items()]


def _summary(record: UnitRecord) -> str:
    """Return the heading's note: how much of the time held all were busy."""
    ratio, gpu = record.gpu.utilisation_ratio, record.gpu
    words = [f"{percent(ratio)} busy of the time held" if ratio is not None else "how busy is not known"]
    unknown = (gpu.unknown_ns or 0) / gpu.allocated_ns if gpu.allocated_ns else 0.0
    if ratio is not None and unknown >= 0.01:
        words.append(f"{percent(unknown)} of it not known")
    return " · ".join(words)
