"""The GPU block of `kwhere unit`: a bar per device or instance, and what was held idle."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import wrap

from kwhere.cli.client import Json
from kwhere.cli.table import bar, cut
from kwhere.reports.figures import BYTES, ENERGY, NO_DATA, Scale, choose_scale, duration, quantity, share
from kwhere.reports.gpu_words import holder_words

METER = 24
_NOTE = f"{'Note':>14}: "
IDLE_SHOWN_SECONDS = 60.0
"""A GPU held idle for less is no news."""


def gpu_header(item: Json) -> str | None:
    """Return what was given: `2 × NVIDIA H100 80GB HBM3`; None without GPUs."""
    given = (item.get("allocation") or {}).get("gpus") or {}
    return ", ".join(f"{amount:.3g} × {model}" for model, amount in given.items()) or None


def gpu_lines(item: Json, width: int) -> Iterator[str]:
    """Yield the block; nothing for a unit without GPUs."""
    gpus: Sequence[Json] = item.get("gpus") or []
    memory = choose_scale([gpu["memory_total_bytes"] or gpu["memory_peak_bytes"] for gpu in gpus], BYTES)
    several = len({gpu["node"] for gpu in gpus}) > 1
    node = None
    for gpu in gpus:
        if several and gpu["node"] != node:
            node = gpu["node"]
            yield cut(f"  {node}", width)
        yield _line(gpu, memory)
    if not gpus:
        return
    yield f"{'GPUs together':>14}: {share(item['gpu_utilization_ratio'])} busy of the time held"
    for gpu in gpus:
        yield from wrap(_idle(gpu, several), width, initial_indent=_NOTE, subsequent_indent=" " * len(_NOTE))
    ways = sorted({holder_words(gpu["source"]) for gpu in gpus})
    yield f"{'Held by':>14}: {', '.join(ways)}"


def label_of(gpu: Json) -> str:
    """Return what a line calls it: `GPU 3`, `GPU 0 1g.10gb`."""
    return " ".join(word for word in (f"GPU {gpu['gpu']}", gpu["profile"] or "") if word)


def _line(gpu: Json, memory: Scale) -> str:
    ratio = gpu["utilization_ratio"]
    filled = bar(ratio, METER).ljust(METER)
    peak, total = memory.text(gpu["memory_peak_bytes"]), memory.text(gpu["memory_total_bytes"])
    energy = quantity(gpu["energy_joules"], ENERGY)
    return f"{cut(label_of(gpu), 14):>14}: [{filled}] {share(ratio):>7}  {peak}/{total} {memory.unit}  {energy}"


def _idle(gpu: Json, several: bool) -> str:
    """Return how long it was held idle and what that cost; empty where it is no news."""
    idle = gpu["held_idle_seconds"]
    if idle is None or idle < IDLE_SHOWN_SECONDS:
        return ""
    where = f" on {gpu['node']}" if several else ""
    since = datetime.fromisoformat(gpu["idle_since"]).astimezone() if gpu["idle_since"] else None
    still = f", still idle since {since:%Y-%m-%d %H:%M}" if since else ""
    wasted = gpu["held_idle_joules"]
    cost = f", {quantity(wasted, ENERGY)}" if wasted is not None else f", {NO_DATA} energy"
    return f"held {label_of(gpu)}{where} idle for {duration(idle)}{cost}{still}"
