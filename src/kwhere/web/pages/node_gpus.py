"""The GPU panel of a node's page: health, load, MIG layout, and who holds what."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kwhere.core.timespan import Span
from kwhere.reports.node_gpus import GpuCounts, NodeGpu, NodeInstance, count_gpus, node_gpus
from kwhere.reports.sources import Sources
from kwhere.series.charts import NodeRef
from kwhere.web.charts import PageChart
from kwhere.web.formatting import BarPiece, Column, bar_pieces, column_of, percent


@dataclass(frozen=True, slots=True)
class NodeGpuRow:
    """One GPU with its bar: how busy it is, or how it is divided."""

    gpu: NodeGpu
    busy: str
    pieces: Sequence[BarPiece]
    layout: str
    """Of a divided GPU, in words."""


@dataclass(frozen=True, slots=True)
class NodeGpuPanel:
    """All of the panel."""

    rows: Sequence[NodeGpuRow]
    summary: str
    power_column: Column
    memory_column: Column

    def index_of(self, uuid: str) -> str:
        """Return what a person calls the GPU of a uuid; the text itself where it is none of these."""
        return next((row.gpu.index for row in self.rows if row.gpu.uuid == uuid), uuid)


def node_gpu_panel(sources: Sources, ref: NodeRef, span: Span) -> NodeGpuPanel | None:
    """Return the panel; None for a node of which no GPU is known."""
    gpus = node_gpus(sources, ref, span)
    if not gpus:
        return None
    return NodeGpuPanel(
        [_row(gpu) for gpu in gpus],
        summary_of(count_gpus(gpus)),
        column_of([gpu.limit_watts or gpu.power_watts for gpu in gpus], "power"),
        column_of([gpu.memory_total_bytes for gpu in gpus], "bytes"),
    )


def named_gpus(chart: PageChart, panel: NodeGpuPanel | None) -> PageChart:
    """Return a chart whose lines call GPUs by their index and not by their uuid."""
    if panel is None:
        return chart
    series = [replace(one, label=" ".join(map(panel.index_of, one.label.split()))) for one in chart.series]
    return replace(chart, series=series)


def summary_of(counts: GpuCounts) -> str:
    """Return how many are held, idle, free and down; a divided GPU by its instances."""
    words = [f"{counts.present} GPU" if counts.present == 1 else f"{counts.present} GPUs"]
    words += _held_words(counts.held, counts.idle, counts.free)
    if counts.instances:
        words.append("instances: " + ", ".join(_held_words(*(counts.instances[n] for n in ("held", "idle", "free")))))
    if counts.down:
        words.append(f"{counts.down} down")
    return " · ".join(words)


def _held_words(held: int, idle: int, free: int) -> list[str]:
    idle_words = f" ({idle} of them idle)" if idle else ""
    return [*([f"{held} held{idle_words}"] if held else []), *([f"{free} free"] if free else [])]


def _row(gpu: NodeGpu) -> NodeGpuRow:
    if gpu.instances:
        amounts = [(_fill(one), f"{one.profile}: {_state(one)}", float(one.slices)) for one in gpu.instances]
        return NodeGpuRow(gpu, "", bar_pieces(amounts, gpu.slices), layout_words(gpu))
    ratio = gpu.utilisation_ratio
    pieces = bar_pieces([("fill-gpu", f"busy {percent(ratio)}", ratio)], 1.0)
    return NodeGpuRow(gpu, "" if ratio is None else percent(ratio), pieces, "")


def _fill(instance: NodeInstance) -> str:
    if not instance.holds:
        return "fill-unallocated-idle"
    return "fill-gpu-idle" if instance.is_idle else "fill-gpu"


def _state(instance: NodeInstance) -> str:
    return "free" if not instance.holds else "held, idle" if instance.is_idle else "held"


def layout_words(gpu: NodeGpu) -> str:
    """Return a divided GPU's slices in words: held, idle, free, and those of no instance."""
    held = sum(one.slices for one in gpu.instances if one.holds and not one.is_idle)
    idle = sum(one.slices for one in gpu.instances if one.is_idle)
    free = sum(one.slices for one in gpu.instances if not one.holds)
    parts = [(held, "held"), (idle, "held and idle"), (free, "free"), (gpu.free_slices, "in no instance")]
    return f"of {gpu.slices} slices: " + ", ".join(f"{count} {word}" for count, word in parts if count)
