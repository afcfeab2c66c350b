"""What `kwhere calibrate` says: what it will do, a row per phase, the fit and what becomes of it."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kwhere.core.terms import DomainKind
from kwhere.energy.calibration import Calibration, Fit, Scope
from kwhere.local.calibrate import Phase, Plan
from kwhere.local.doctor import counted

PROGRESS_HEADER = f"{'load':>6}  {'busy CPUs':>9}  {'measured W':>10}"
LEAST_REACHED_RATIO = 0.8
HEADER = f"{PROGRESS_HEADER}  {'model W':>8}  {'off by W':>8}"


def announce(plan: Plan, machine: str, width: int) -> str:
    """Return what will be done and for how long."""
    what = "the whole node" if DomainKind.PLATFORM in plan.kinds else "its CPUs"
    loads = ", ".join("idle" if level == 0 else f"{level} %" for level in plan.levels)
    minutes, seconds = divmod(round(plan.total_seconds), 60)
    text = (
        f"Fits the model of this machine ({machine}) to {plan.meter}, which measures {what}:"
        f" {loads} load on {counted(len(plan.cpus), 'CPU')}, {plan.phase_seconds:g} s each after"
        f" {plan.settle_seconds:g} s to settle, about {minutes} min {seconds:02d} s in all."
        " Its children run at full speed meanwhile; Ctrl-C ends them."
    )
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def progress(phase: Phase) -> str:
    """Return the line of a phase that has just ended, before there is a fit."""
    return f"{_level(phase):>6}  {phase.busy_cpus:9.2f}  {phase.watts:10.2f}"


def table(phases: Sequence[Phase], fit: Fit) -> list[str]:
    """Return the phases beside what the fitted model says of them."""
    return [HEADER, *(_row(phase, fit) for phase in phases)]


def verdict(fit: Fit, found: Calibration) -> Iterator[str]:
    """Yield the fitted figures with their errors."""
    yield f"idle   {fit.idle_watts:8.2f} W{_error(fit.idle_error_watts, ' W')}"
    yield f"slope  {fit.watts_per_cpu:8.3f} W per busy CPU{_error(fit.slope_error_watts, '')}"
    r_squared = "–" if fit.r_squared is None else f"{fit.r_squared:.4f}"
    yield f"fit    R² {r_squared}, residual {fit.residual_watts:.2f} W"
    yield f"so modelled figures are within ± {100 * found.uncertainty_ratio:.0f} %, for work like this load"
    if found.dram_idle_watts is not None:
        yield f"dram   {found.dram_idle_watts:8.2f} W"


def caution(phases: Sequence[Phase], cpus: int) -> str:
    """Return a sentence where the load never came near the whole machine; empty where it did."""
    reached = max((phase.busy_cpus for phase in phases), default=float(cpus))
    if reached >= LEAST_REACHED_RATIO * cpus:
        return ""
    return (
        f"The load reached only {reached:.2f} of {cpus} CPUs (a quota, a cpuset, other work?);"
        " beyond that the line is a guess."
    )


def written(path: Path, found: Calibration, width: int) -> str:
    """Return where it was written and who will use it."""
    scope = (
        " What the meter sees beside the memory is booked as cpu: fans and losses are inside."
        if found.scope is Scope.NODE
        else ""
    )
    text = (
        f"Written to {path}. The model uses it from the agent's next start, wherever nothing measures the CPUs;"
        f" remove the file to go back to the table.{scope}"
    )
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def as_record(phases: Sequence[Phase], fit: Fit | None, found: Calibration, path: Path | None) -> dict[str, Any]:
    """Return everything for `--json`; what is not known is null."""
    return {
        "calibration": asdict(found),
        "fit": None if fit is None else asdict(fit),
        "phases": [
            {
                "load_percent": phase.percent,
                "busy_cpus": phase.busy_cpus,
                "watts": phase.watts,
                "model_watts": None if fit is None else fit.watts(phase.busy_cpus),
                "seconds": phase.seconds,
            }
            for phase in phases
        ],
        "written": None if path is None else str(path),
    }


def _row(phase: Phase, fit: Fit) -> str:
    model = fit.watts(phase.busy_cpus)
    return f"{progress(phase)}  {model:8.2f}  {model - phase.watts:+8.2f}"


def _level(phase: Phase) -> str:
    return "idle" if phase.percent == 0 else f"{phase.percent} %"


def _error(half_width: float | None, unit: str) -> str:
    return "" if half_width is None else f" ± {half_width:.2g}{unit} (95 %)"
