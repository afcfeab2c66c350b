"""What a unit used node by node, and GPU by GPU: a bar each."""

from collections.abc import Iterator, Sequence

from kwhere.cli.client import Json
from kwhere.cli.table import bar, cut
from kwhere.reports.figures import BYTES, CPU_TIME, ENERGY, Scale, choose_scale, quantity, share
from kwhere.reports.gpu_words import holder_words
from kwhere.reports.plain_text import visible

METER = 24
_LABEL = 14
MOST_NODES = 32
"""Of a larger unit the others are counted."""


def gpu_header(item: Json) -> str | None:
    """Return what was given: `2 × NVIDIA H100 80GB HBM3`; None without GPUs."""
    given = (item.get("allocation") or {}).get("gpus") or {}
    return ", ".join(f"{amount:.3g} × {model}" for model, amount in given.items()) or None


def node_lines(item: Json, width: int) -> Iterator[str]:
    """Yield a block per node where there are several, with its CPUs, memory and GPUs; of one node the GPUs alone."""
    gpus: Sequence[Json] = item.get("gpus") or []
    runs: Sequence[Json] = item.get("node_runs") or []
    nodes = list(dict.fromkeys([*(run["node"] for run in runs), *(gpu["node"] for gpu in gpus)]))
    memory = choose_scale([gpu["memory_total_bytes"] or gpu["memory_peak_bytes"] for gpu in gpus], BYTES)
    for node in nodes[:MOST_NODES]:
        if len(nodes) > 1:
            yield cut(f"  {visible(node)}", width)
            for run in runs:
                if run["node"] == node:
                    yield from _run_lines(run)
        yield from (_gpu_line(gpu, memory) for gpu in gpus if gpu["node"] == node)
    if len(nodes) > MOST_NODES:
        yield f"  and {len(nodes) - MOST_NODES} more nodes: --json has them all"
    if gpus:
        yield f"{'GPUs together':>{_LABEL}}: {share(item['gpu_utilization_ratio'])} busy of the time held"
        ways = sorted({holder_words(gpu["source"]) for gpu in gpus})
        yield f"{'Held by':>{_LABEL}}: {visible(', '.join(ways))}"


def label_of(gpu: Json) -> str:
    """Return what a line calls it: `GPU 3`, `GPU 0 1g.10gb`."""
    return visible(" ".join(word for word in (f"GPU {gpu['gpu']}", gpu["profile"] or "") if word))


def meter(label: str, ratio: float | None, text: str, width: int = METER) -> str:
    """Return a line with a bar; more than 100 % is a full bar with a mark."""
    end = "]" if ratio is None or ratio <= 1 else "!"
    return f"{label:>{_LABEL}}: [{bar(ratio, width).ljust(width)}{end} {share(ratio):>7}  {text}".rstrip()


def _run_lines(run: Json) -> Iterator[str]:
    peak, given = run.get("memory_peak_bytes"), run.get("memory_allocated_bytes")
    energy = quantity(run["energy_joules"].get("total"), ENERGY)
    yield meter("CPU", run.get("cpu_efficiency_ratio"), f"{quantity(run.get('cpu_seconds'), CPU_TIME)}  {energy}")
    of_given = f" of {quantity(given, BYTES)}" if given is not None else ""
    ratio = peak / given if peak is not None and given else None
    yield meter("Memory", ratio, f"{quantity(peak, BYTES)}{of_given}")


def _gpu_line(gpu: Json, memory: Scale) -> str:
    peak, total = memory.text(gpu["memory_peak_bytes"]), memory.text(gpu["memory_total_bytes"])
    energy = quantity(gpu["energy_joules"], ENERGY)
    return meter(cut(label_of(gpu), _LABEL), gpu["utilization_ratio"], f"{peak}/{total} {memory.unit}  {energy}")
