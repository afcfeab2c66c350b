"""Puts `kwhere calibrate` together: this machine, one of its meters, a load, and the file that the model reads."""

import os
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kwhere.apps.agent import identify, meter_bank, meter_context, topology_of
from kwhere.apps.calibration import FILE_NAME, machine_of
from kwhere.apps.settings import Settings
from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.calibration import (
    HAND_UNCERTAINTY_RATIO,
    Calibration,
    Fit,
    PowerPoint,
    Scope,
    fit_power,
    objection,
    uncertainty_ratio,
)
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.stat import StatFile
from kwhere.local.calibrate import (
    Instruments,
    Phase,
    Plan,
    busy_reason,
    dram_idle_watts,
    fit_phases,
    run_phases,
    settle_seconds,
)
from kwhere.local.load import LoadGenerator
from kwhere.meters.meter import PLATFORM, Meter, MeterContext
from kwhere.meters.registry import Meters, build_meters
from kwhere.sampling.node_cpu import NodeCpu

BY_HAND = "hand"
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Bench:
    """A machine ready to be measured; `close` when done."""

    plan: Plan
    machine: str
    context: MeterContext
    instruments: Instruments

    def phases(self) -> Generator[Phase, None, None]:
        """Yield each phase as it ends. No child is left behind, however this ends."""
        load = LoadGenerator(self.plan.cpus)
        try:
            load.start()
            yield from run_phases(self.plan, self.instruments, load.set_level)
        finally:
            load.stop()

    def check_idle(self, phase: Phase) -> None:
        """Raise Unavailable (`busy`) where the first phase was not idle."""
        reason = busy_reason(phase, len(self.context.socket_of_cpu))
        if phase.percent == 0 and reason:
            raise Unavailable(
                "busy",
                f"the machine is not idle: {reason}. Stop what runs, or --force: the fit still goes by busy time,"
                " and is less exact",
            )

    def conclude(self, phases: Sequence[Phase]) -> tuple[Fit, Calibration]:
        """Return fit and calibration. Raises Unavailable where the meter says nothing that could be used."""
        fit = fit_phases(phases, len(self.context.socket_of_cpu))
        scope = Scope.NODE if DomainKind.PLATFORM in self.plan.kinds else Scope.CPU
        return fit, _calibration(self.context, self.plan.meter, scope, fit, dram_idle_watts(phases))

    def close(self) -> None:
        """Release the meters."""
        self.instruments.bank.close()


def prepare(settings: Settings, meter: str | None, phase_seconds: float) -> Bench:
    """Return the bench of this machine. Raises Unavailable: no meter, a recorded host, a meter of that name."""
    host, clock = HostFS(settings.path.procfs, settings.path.sysfs, settings.path.cgroupfs), SystemClock()
    context, cpu = _context(settings, host)
    stat = StatFile(host)
    found = build_meters(context)
    chosen = _choose(found, meter)
    for other in found.meters:
        if other is not chosen:
            other.close()
    kinds = (DomainKind.CPU,) if _measures_cpus(chosen) else (DomainKind.PLATFORM,)
    step_seconds = min(1.0, phase_seconds / 5)
    plan = Plan(
        meter=chosen.source,
        kinds=kinds,
        cpus=tuple(sorted(os.sched_getaffinity(0) & context.socket_of_cpu.keys())) or tuple(context.socket_of_cpu),
        phase_seconds=phase_seconds,
        settle_seconds=settle_seconds(chosen.refresh_seconds),
        step_seconds=step_seconds,
    )

    def read_busy_ns() -> int:
        cpu.step(stat.read())
        return sum(cpu.busy_ns().values())

    bank = meter_bank(
        Meters(meters=(chosen,), sources=(), by_component={}, platforms=()),
        settings.agent.model_copy(update={"interval_seconds": step_seconds}),
    )
    pause = threading.Event()
    return Bench(plan, describe(context), context, Instruments(bank, chosen, read_busy_ns, clock, pause.wait))


def by_hand(settings: Settings, watts: Mapping[int, float]) -> tuple[Fit, Calibration]:
    """Return fit and calibration of `watts` by percent of load, as a person read them from a plug meter.

    Raises Unavailable where they make no sense.
    """
    host = HostFS(settings.path.procfs, settings.path.sysfs, settings.path.cgroupfs)
    context, _ = _context(settings, host)
    cpus = len(context.socket_of_cpu)
    fit = fit_power([PowerPoint(percent * cpus / 100, value) for percent, value in watts.items()])
    if reason := objection(fit, cpus):
        raise Unavailable("unsupported", reason)
    found = _calibration(context, BY_HAND, Scope.NODE, fit, None)
    return fit, replace(found, uncertainty_ratio=max(found.uncertainty_ratio, HAND_UNCERTAINTY_RATIO))


def write(path: Path, found: Calibration) -> None:
    """Write the file whole or not at all. Raises Unavailable."""
    check_writable(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(found.to_json())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise Unavailable("permission", f"{path}: cannot be written: {error.strerror}") from None


def check_writable(path: Path) -> None:
    """Make the directory of `path` where it lacks. Raises Unavailable where nothing can be written there."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable("permission", f"{path.parent}: cannot be made: {error.strerror}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise Unavailable("permission", f"{path}: cannot be written; --output names another file")


def file_of(output: Path | None, state_dir: Path) -> Path:
    """Return where the calibration goes."""
    return output or state_dir / FILE_NAME


def describe(context: MeterContext) -> str:
    """Return processor, CPUs and sockets in words."""
    model, sockets, cpus = machine_of(context)
    return f"{model or 'unknown processor'}, {cpus} CPUs on {sockets} socket{'' if sockets == 1 else 's'}"


def _context(settings: Settings, host: HostFS) -> tuple[MeterContext, NodeCpu]:
    if host.is_recorded:
        raise Unavailable("recorded", f"{settings.path.procfs}: is a copy of a machine; only this one can be loaded")
    topology = topology_of(host)
    cpu = NodeCpu(topology, lambda: topology_of(host))
    node = identify(settings.agent, host).node
    return replace(meter_context(host, cpu), settings=settings.meters, node=node), cpu


def _choose(meters: Meters, named: str | None) -> Meter:
    """Return the meter to fit to: the named one, else the CPUs' own, else the node's. Raises Unavailable."""
    real = [meter for meter in meters.meters if meter.method is not Method.MODELLED]
    if named is not None:
        found = next((meter for meter in real if meter.source == named), None)
        status = next((status for status in meters.sources if status.source == named), None)
        if found is None:
            why = status.detail or status.reason if status is not None and not status.up else "no meter of that name"
            raise Unavailable("absent", f"{named}: {why}; here: {', '.join(m.source for m in real) or 'none'}")
        return found
    cpu = meters.by_component.get(Component.CPU)
    if cpu is not None and cpu.method is not Method.MODELLED:
        return cpu
    if meters.platforms:
        return meters.platforms[0]
    closed = [status.source for status in meters.sources if status.reason == "permission"]
    remedy = (
        f"{', '.join(closed)} can be read by root alone: run this as root"
        if closed
        else "`kwhere doctor` says why; with a plug meter: --watts idle=WATTS --watts full=WATTS"
    )
    raise Unavailable("absent", f"no meter to fit to: {remedy}")


def _measures_cpus(meter: Meter) -> bool:
    return any(domain.kind is DomainKind.CPU for domain in meter.domains) or PLATFORM not in meter.domains


def _calibration(context: MeterContext, source: str, scope: Scope, fit: Fit, dram_watts: float | None) -> Calibration:
    model, sockets, cpus = machine_of(context)
    now = datetime.fromtimestamp(SystemClock().utc_ns() // NANOSECONDS_PER_SECOND, UTC)
    return Calibration(
        source=source,
        scope=scope,
        cpu_model=model,
        sockets=sockets,
        cpus=cpus,
        idle_watts=round(fit.idle_watts, _DIGITS),
        watts_per_cpu=round(fit.watts_per_cpu, _DIGITS),
        uncertainty_ratio=round(uncertainty_ratio(fit, cpus), _DIGITS),
        measured_utc=now.isoformat(),
        dram_idle_watts=None if dram_watts is None else round(dram_watts, _DIGITS),
        r_squared=None if fit.r_squared is None else round(fit.r_squared, _DIGITS),
        residual_watts=round(fit.residual_watts, _DIGITS),
    )
