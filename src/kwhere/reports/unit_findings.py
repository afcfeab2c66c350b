"""What stands out of one unit, with one action each: only what its figures say, and never from what is missing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kwhere.core.quantities import joules, seconds
from kwhere.database.gpu_records import UnitGpu
from kwhere.database.records import UnitRecord
from kwhere.reports.figures import BYTES, ENERGY, duration, quantity, share
from kwhere.reports.unit_gpus import IDLE_SHOWN_SECONDS, gpu_label

WHOLE_RATIO = 0.9
JUDGED_SECONDS = 300.0
"""A shorter run says nothing of what its job needs."""
SUSPECT_RATIO = 1.05
MEMORY_LOW_RATIO = 0.5
MEMORY_SPARE_BYTES = 2**30
MEMORY_MARGIN = 1.2
CPU_LOW_RATIO = 0.5
SERIAL = (0.85, 1.05)
"""So many busy CPUs of several are one that works."""
IDLE_NODE_RATIO = 0.001
GPU_LOW_RATIO = 0.15
FULL_RATIO = 0.8
FULL = "its memory is nearly full: right for a model that waits to serve, else release it"
"""Frameworks reserve all memory, so a full one does not show that a GPU was used; nor that it was not needed."""
CONFINED = frozenset({"slurm", "oar", "libvirt"})
"""Managers whose units cannot use more than they were given."""
_BY_STATE = {
    "out_of_memory": ("it was killed for want of memory", "ask for more memory"),
    "timeout": ("its time limit ended it", "ask for more time, or save its state on the way"),
    "deadline": ("its deadline ended it", "submit it earlier, or ask for less time"),
    "node_fail": ("a node failed under it", "submit it again"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence, and what to do; `grave`: something failed, or figures contradict each other."""

    kind: str
    text: str
    action: str
    grave: bool = False
    since: datetime | None = None
    """It goes on, since then."""


def unit_findings(record: UnitRecord, now: datetime) -> list[Finding]:
    """Return findings, the grave ones first."""
    lived = ((record.ended_at or now) - record.started_at).total_seconds()
    measured = lived if record.measured_seconds is None else record.measured_seconds
    found = [*_of_state(record), *_suspect(record)]
    if lived >= JUDGED_SECONDS:
        found += _of_nodes(record)
    if measured >= JUDGED_SECONDS:
        found += [_within(each, measured, lived) for each in (*_of_cpus(record), *_of_memory(record))]
    for gpu in record.gpus:
        found += _of_gpu(gpu, record.gpus)
    return sorted(found, key=lambda finding: not finding.grave)


def _within(finding: Finding, measured_seconds: float, lived_seconds: float) -> Finding:
    """Return the finding with how long was measured, where that was not nearly its whole life."""
    if measured_seconds >= WHOLE_RATIO * lived_seconds:
        return finding
    return replace(finding, text=f"{finding.text} within the {duration(measured_seconds)} that were measured")


def _of_state(record: UnitRecord) -> Iterator[Finding]:
    if record.state in _BY_STATE:
        text, action = _BY_STATE[record.state]
        yield Finding(record.state, text, action, grave=True)


def _of_nodes(record: UnitRecord) -> Iterator[Finding]:
    missing = record.nodes_unreported
    if not record.is_reported or not missing:
        return
    text = f"no agent told of it on {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}: its figures are too low"
    yield Finding("node_unreported", text, "ask for an agent on every node of its cluster", grave=True)


def _suspect(record: UnitRecord) -> Iterator[Finding]:
    """Yield what cannot be: it is shown as it was found, not cut to 100 %."""
    if record.manager not in CONFINED:
        return
    for kind, what, ratio in (
        ("cpu_suspect", "CPU time", record.cpu_efficiency_ratio),
        ("memory_suspect", "peak memory", record.memory_efficiency_ratio),
    ):
        if ratio is not None and ratio > SUSPECT_RATIO:
            text = f"{what} is {share(ratio)} of what was allocated: suspect"
            yield Finding(kind, text, "check whether its manager confines jobs to their allocation", grave=True)


def _of_cpus(record: UnitRecord) -> Iterator[Finding]:
    ratio, cpus = record.cpu_efficiency_ratio, record.cpus_allocated
    idle = sorted({run.node for run in record.node_runs if _is_idle(run.cpu_efficiency_ratio)})
    if len(record.nodes) > 1 and idle:
        text = f"did no work on {', '.join(idle[:5])}{' …' if len(idle) > 5 else ''}"
        yield Finding("node_idle", text, "check that it starts there, or ask for fewer nodes", grave=True)
    if ratio is None or cpus is None or cpus < 2:
        return
    if len(record.nodes) == 1 and SERIAL[0] < ratio * cpus < SERIAL[1]:
        yield Finding("serial", f"one of its {cpus:g} CPUs worked", "ask for 1 CPU, or run it in parallel")
    elif ratio < CPU_LOW_RATIO:
        wanted = max(1, math.ceil(ratio * cpus * MEMORY_MARGIN))
        text = f"used {share(ratio)} of the CPU time of its {cpus:g} CPUs"
        yield Finding("cpu_low", text, f"ask for {wanted} CPU{'s' if wanted > 1 else ''}, or find what it waits for")


def _is_idle(ratio: float | None) -> bool:
    return ratio is not None and ratio < IDLE_NODE_RATIO


def _of_memory(record: UnitRecord) -> Iterator[Finding]:
    ratio, given = record.memory_efficiency_ratio, record.memory_allocated_bytes
    if ratio is None or given is None or ratio >= MEMORY_LOW_RATIO or record.state == "out_of_memory":
        return
    used = ratio * given
    if given - used < MEMORY_SPARE_BYTES:
        return
    so_far = " so far" if record.ended_at is None else ""
    text = f"used at most {quantity(used, BYTES)} of {quantity(given, BYTES)}{so_far}"
    yield Finding("memory_low", text, f"ask for {math.ceil(used * MEMORY_MARGIN / 2**30)} GiB next time")


def _of_gpu(gpu: UnitGpu, gpus: Sequence[UnitGpu]) -> Iterator[Finding]:
    label, ratio = gpu_label(gpu, gpus), gpu.utilisation_ratio
    # Of a shared GPU a unit may use more than its share.
    if ratio is not None and ratio > SUSPECT_RATIO and gpu.place_ns >= gpu.held_ns:
        text = f"{label} was busy {share(ratio)} of the time held: suspect"
        yield Finding("gpu_suspect", text, "tell who runs the cluster: one of its figures is wrong", grave=True)
    is_full = _is_full(gpu)
    if gpu.held_idle_ns is not None and seconds(gpu.held_idle_ns) >= IDLE_SHOWN_SECONDS:
        yield _idle(gpu, label, is_full=is_full)
    elif ratio is not None and ratio < GPU_LOW_RATIO and seconds(gpu.held_ns) >= JUDGED_SECONDS:
        action = FULL if is_full else "find what it waits for: data, CPUs, or other GPUs"
        yield Finding("gpu_low", f"{label} was busy {share(ratio)} of the time held", action)


def _is_full(gpu: UnitGpu) -> bool:
    """Return whether its memory was nearly full once; of a shared GPU its share of the memory."""
    if not gpu.memory_total_bytes or not gpu.held_ns:
        return False
    share_bytes = gpu.memory_total_bytes * gpu.place_ns / gpu.held_ns
    return (gpu.memory_peak_bytes or 0) >= FULL_RATIO * share_bytes


def _idle(gpu: UnitGpu, label: str, *, is_full: bool) -> Finding:
    wasted = "" if gpu.held_idle_uj is None else f", {quantity(joules(gpu.held_idle_uj), ENERGY)}"
    text = f"held {label} idle for {duration(seconds(gpu.held_idle_ns or 0))}{wasted}"
    if is_full:
        return Finding("gpu_idle", text, FULL, since=gpu.idle_since)
    if gpu.busy_ns == 0 and not gpu.unknown_ns and seconds(gpu.held_ns) >= JUDGED_SECONDS:
        return Finding("gpu_unused", f"{text}; never used it", "ask for fewer GPUs", grave=True, since=gpu.idle_since)
    action = "give it work or release it" if gpu.idle_since else "ask for a GPU only while there is work for it"
    return Finding("gpu_idle", text, action, since=gpu.idle_since)
