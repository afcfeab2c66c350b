"""Puts `kwhere run` together: launch, measure, report."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kwhere.apps.agent import energy_book, identify, meter_bank, meter_context, topology_of
from kwhere.apps.calibration import with_calibration
from kwhere.apps.own_server import has_server, server_of
from kwhere.apps.settings import Settings
from kwhere.core.clock import Clock, SystemClock
from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, Method, Part
from kwhere.core.timespan import Span
from kwhere.core.unit import UnitKey
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.stat import StatFile
from kwhere.local.agent_client import SOCKET_NAME, ask_agent, tell_agent
from kwhere.local.agent_energy import agent_methods, ended_run, is_better
from kwhere.local.cgroup import make_run_cgroup
from kwhere.local.launch import Launch
from kwhere.local.own_energy import OwnEnergy
from kwhere.local.run_meter import RunMeter
from kwhere.local.run_report import RunReport
from kwhere.local.run_source import RunSource
from kwhere.meters.registry import build_meters
from kwhere.meters.settings import MeterSettings
from kwhere.sampling.node_cpu import NodeCpu
from kwhere.sampling.slot_sink import NoJournal
from kwhere.sampling.snapshot import attach
from kwhere.sampling.step import NodeParts, Sampler, SlotTiming
from kwhere.sampling.totals import StepCounts, TotalsBoard
from kwhere.sampling.weighing import Weigher

FOR_EVER_NS = 365 * 86400 * NANOSECONDS_PER_SECOND
"""Slots and details of a sampler that keeps no ledger."""
STEP = {"get": "step"}
FACTOR_SECONDS = 2.0
"""How long the server may take to name its emission factor."""
JOULES_PER_KWH = 3.6e6


def account_command(command: Sequence[str], settings: Settings, state_dir: Path) -> RunReport:
    """Run `command` in the foreground and return what it used; `state_dir` may hold the socket of an agent."""
    clock = SystemClock()
    host = HostFS(settings.path.procfs, settings.path.sysfs, settings.path.cgroupfs)
    unit = f"{os.getpid()}-{clock.utc_ns() // NANOSECONDS_PER_SECOND}"
    cgroup = make_run_cgroup(host, unit)
    meter = RunMeter(host, cgroup)
    key = UnitKey("run", unit, f"{unit}@{clock.utc_ns() // NANOSECONDS_PER_SECOND}")
    energy = _own_energy(settings, host, clock, RunSource(key, meter, os.getuid(), clock.boottime_ns()), key)
    launch = Launch(command)
    try:
        if energy is not None:
            energy.baseline()
        begin_ns = time.monotonic_ns()
        launch.start(cgroup.join)
        if energy is not None:
            energy.start()
        exit_code = launch.wait()
        wall_seconds = (time.monotonic_ns() - begin_ns) / NANOSECONDS_PER_SECOND
        use = meter.read()
        if energy is not None:
            energy.finish()
        with suppress(KwhereError):  # so that the agent's ledger has the last reading, not an estimate
            ask_agent(state_dir / SOCKET_NAME, STEP, timeout_seconds=1.0)
    finally:
        cgroup.remove()
    with suppress(KwhereError):  # and sees the end when it is one
        tell_agent(state_dir / SOCKET_NAME, STEP)
    found = best_energy(energy, state_dir / SOCKET_NAME, unit)
    factor = factor_now(settings, state_dir)
    return RunReport(
        unit=unit,
        exit_code=exit_code,
        wall_seconds=wall_seconds,
        user_seconds=use.user_ns / NANOSECONDS_PER_SECOND,
        system_seconds=use.system_ns / NANOSECONDS_PER_SECOND,
        memory_peak_bytes=use.memory_peak_bytes,
        io_read_bytes=use.io_read_bytes,
        io_write_bytes=use.io_write_bytes,
        energy_joules=found.energy_joules,
        emissions_grams=emissions_grams(settings, factor, found.energy_joules),
        method=found.method.value if found.method else None,
        zone=factor.zone if factor else settings.site.zone,
        accounted_by=found.by,
        has_begun=launch.has_begun,
    )


@dataclass(frozen=True, slots=True)
class FoundEnergy:
    """Energy of a run, and who measured it."""

    energy_joules: Mapping[tuple[Component, Part], float]
    method: Method | None
    by: str


def best_energy(own: OwnEnergy | None, socket_path: Path, unit: str) -> FoundEnergy:
    """Return the agent's figures where it measures better than we could, else our own."""
    ours = own.method() if own is not None else None
    methods = agent_methods(socket_path)
    if is_better(methods, ours):
        theirs = ended_run(socket_path, unit, methods)
        if theirs is not None and theirs.energy_joules:
            return FoundEnergy(theirs.energy_joules, theirs.method, "the agent")
    return FoundEnergy(own.energy_joules() if own is not None else {}, ours, "this command")


@dataclass(frozen=True, slots=True)
class GridFactor:
    """The emission factor that is in force now."""

    zone: str
    grams_per_kwh: float


def factor_now(settings: Settings, state_dir: Path) -> GridFactor | None:
    """Return the factor that the server of `state_dir` reports with, else the settings'; None where no zone is known.

    So grams are those of the pages, and a zone chosen there counts.
    """
    if has_server(state_dir):
        with suppress(KwhereError):
            factors = server_of(state_dir, FACTOR_SECONDS)("/emission-factors").get("items") or []
            for factor in factors:
                if factor.get("reporting") and settings.site.zone in (None, factor["zone"]):
                    return GridFactor(factor["zone"], factor["grams_per_kwh"])
    return _factor_of_settings(settings)


def _factor_of_settings(settings: Settings) -> GridFactor | None:
    zone = settings.site.zone
    if zone is None:
        return None
    from kwhere.emission_factors.choose import build_chooser, without_asking

    now = datetime.now(UTC)
    try:
        chooser = build_chooser(without_asking(settings.emission_factors), SystemClock())
        factors = chooser.factors(zone, Span(now - timedelta(hours=1), now))
    except KwhereError:
        return None
    return GridFactor(zone, factors[-1].grams_per_kwh) if factors else None


def emissions_grams(
    settings: Settings, factor: GridFactor | None, joules: Mapping[tuple[Component, Part], float]
) -> float | None:
    """Return grams of CO2e of `joules` used just now; None without a factor or energy."""
    if factor is None or not joules:
        return None
    return sum(joules.values()) * settings.site.pue_ratio * factor.grams_per_kwh / JOULES_PER_KWH


def _own_energy(settings: Settings, host: HostFS, clock: Clock, source: RunSource, key: UnitKey) -> OwnEnergy | None:
    """Return a sampler of this one unit; None where not even /proc/stat can be read."""
    try:
        stat = StatFile(host)
        cpu = NodeCpu(topology_of(host), lambda: topology_of(host))
        context = meter_context(host, cpu)
        chosen = MeterSettings(off=settings.meters.off, model=settings.meters.model)  # no BMC is asked for one run
        context = with_calibration(replace(context, settings=chosen), settings.agent.state)
        meters = build_meters(context)
    except (Unavailable, SourceError):
        return None
    bank = meter_bank(meters, settings.agent)
    sampler = Sampler(
        NodeParts(
            clock=clock,
            boot_id=identify(settings.agent, host).boot_id,
            read_stat=stat.read,
            cpu=cpu,
            units=(source,),
            bank=bank,
            energy=energy_book(settings.agent, meters, context, bank),
            weigher=Weigher(context.memory_bytes or 0),
            sink=NoJournal(),
            board=TotalsBoard(),
        ),
        SlotTiming(slot_ns=FOR_EVER_NS, detail_ns=FOR_EVER_NS),
    )
    attach(sampler, StepCounts)
    return OwnEnergy(sampler, key, settings.agent.interval_seconds)
