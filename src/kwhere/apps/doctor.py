"""Puts `kwhere doctor` together: this host or a recorded one, and what checks may ask of it."""

import getpass
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from kwhere.agent.ledger_token import FILE_NAME as LEDGER_TOKEN
from kwhere.apps.agent import BuiltAgent, build_agent, gpu_mapping, identify, meter_context, topology_of
from kwhere.apps.calibration import with_calibration
from kwhere.apps.configuration import default_state_dir
from kwhere.apps.doctor_gpu_access import GpuAccess
from kwhere.apps.gpus import start_gpus
from kwhere.apps.own_server import ANSWER_SECONDS, server_of
from kwhere.apps.settings import Settings
from kwhere.collectors.gpu import expected_gpus
from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import GpuSource
from kwhere.devices.gpu_activity import NothingOutside, lacks_activity
from kwhere.devices.gpu_watch import GpuWatch
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.emission_factors.zones import propose_country
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of
from kwhere.ledger.journal import FILE_NAME
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.ledger.rows import Entry, Slot
from kwhere.local import (
    doctor_dcgm,
    doctor_energy,
    doctor_gpu_claims,
    doctor_gpus,
    doctor_kernel,
    doctor_managers,
    doctor_process,
    doctor_roles,
    doctor_state,
    doctor_units,
)
from kwhere.local.agent_client import SOCKET_NAME, ask_agent
from kwhere.local.doctor import Check, Examination, examine
from kwhere.local.doctor_answers import MeterAnswer, ask_copy, ask_meters
from kwhere.local.doctor_hints import hints
from kwhere.local.doctor_journal import last_entry
from kwhere.local.doctor_machine import container_of
from kwhere.local.doctor_place import Here, Place, SeenGpus
from kwhere.local.doctor_targets import SECTION, Target, check_targets
from kwhere.local.doctor_unit import Evidence, explain
from kwhere.meters.meter import Meter, MeterContext, Plugin
from kwhere.meters.registry import Meters, SourceStatus, build_meters
from kwhere.reports.sources import Hint
from kwhere.sampling.node_cpu import NodeCpu
from kwhere.server.discovered import SCHEME_LABEL, Discovered, read_file
from kwhere.transport.http import Answer, HttpClient
from kwhere.transport.settings import HttpClientSettings

SYSTEMD = Path("/run/systemd/system")
UNIT_SECONDS = 2.0
"""How long a unit is watched at least before it is said to be idle."""


def examine_host(settings: Settings, state_dir: Path | None) -> list[Check]:
    """Return every check of the host that `settings` name; those of the running machine are left out for a copy.

    Slow energy sources are waited for, all at once, up to their own give-up time.
    """
    directory = agents_directory(settings, state_dir)
    place = asking(place_of(settings, directory), settings, directory)
    checks = [*examine(doctor_energy.CHECKS, place), *examine(doctor_units.CHECKS, place)]
    if place.fs.is_recorded:
        return checks + examine(doctor_kernel.CHECKS, place)
    here = here_of(settings, place, directory)
    checks += [*examine(doctor_managers.CHECKS, place), *examine(doctor_process.UNIT_CHECKS, place)]
    checks += examine(doctor_gpu_claims.CHECKS, place) + examine(doctor_dcgm.CHECKS, place)
    checks += examine(doctor_gpus.CHECKS, place)
    checks += [*examine(doctor_kernel.CHECKS, place), *examine(doctor_process.KERNEL_CHECKS, place)]
    return checks + examine(doctor_state.CHECKS, here) + examine(doctor_roles.CHECKS, here)


def next_steps(settings: Settings) -> Sequence[Hint]:
    """Return what the Overview page shows as "What next": of the energy sources alone, in a few milliseconds."""
    return hints(examine(doctor_energy.CHECKS, place_of(settings)))


def explain_unit(settings: Settings, state_dir: Path | None, ident: str) -> list[Check]:
    """Return why the unit has the energy it has, or none; takes as long as two steps."""
    directory = agents_directory(settings, state_dir)
    place = place_of(settings, directory)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    built = build_agent(settings, None)
    began_ns = built.clock.monotonic_ns()
    built.once(max(UNIT_SECONDS, settings.agent.interval_seconds))
    totals = built.agent.totals()
    assert totals is not None
    evidence = Evidence(
        place=place,
        totals=totals,
        seconds=_seconds_between(built, began_ns),
        last_booked=None if place.fs.is_recorded else _last_booked_in(directory),
        ask_agent=None if place.fs.is_recorded else _agent_of(directory),
    )
    energy = examine((Examination("energy", "Unit", doctor_energy.check_energy),), place)
    return [replace(check, section="Unit") for check in explain(ident, evidence)] + energy


def examine_targets(settings: Settings, state_dir: Path | None, file: Path, client: HttpClientSettings) -> list[Check]:
    """Return a check of every agent that `file` names. Raises Unavailable, SourceError for the file."""
    token_file = client.token_file or agents_directory(settings, state_dir) / LEDGER_TOKEN
    if token_file.is_file():
        client = client.model_copy(update={"token_file": token_file})

    def ask(url: str, path: str) -> Answer:
        with HttpClient(url, client) as connection:
            return connection.get(path)

    targets = [_target(found) for found in read_file(file)]
    return [replace(check, section=SECTION) for check in check_targets(targets, ask, SystemClock().utc_ns)]


def place_of(settings: Settings, state_dir: Path | None = None) -> Place:
    """Return the host that `settings` name; `state_dir` is of the agent that runs here, if one does."""
    fs = HostFS(settings.path.procfs, settings.path.sysfs, settings.path.cgroupfs)
    access = gpu_access(settings, fs, state_dir)
    return Place(
        fs=fs,
        settings=settings.units,
        cgroup_version=settings.cgroups.version,
        meters=cache(lambda: _meters(fs, settings)),
        units=cache(lambda: _units(fs, settings)),
        finds_program=_finds_program,
        user=_user(),
        is_root=os.geteuid() == 0,
        container=None if fs.is_recorded else container_of(Path("/"), os.environ),
        gpus=cache(lambda: _gpus(fs, settings, access)),
        gpu_claims=cache(lambda: _gpu_claims(fs, settings, access)),
    )


def gpu_access(settings: Settings, fs: HostFS, state_dir: Path | None) -> GpuAccess:
    """Return how the GPUs of a host are opened."""
    directory = None if fs.is_recorded else state_dir
    return GpuAccess(settings.gpu, fs, directory, None if directory is None else _agent_of(directory))


def asking(place: Place, settings: Settings, state_dir: Path | None = None) -> Place:
    """Return the place with meters that were asked; those of a recorded host say what its moments hold."""
    asked = cache(lambda: _ask(place.fs, settings, gpu_access(settings, place.fs, state_dir)))
    return replace(place, meters=lambda: asked()[0], answers=lambda: asked()[1])


def here_of(settings: Settings, place: Place, state_dir: Path) -> Here:
    """Return what only the running machine has."""
    identity = identify(settings.agent, place.fs)
    return Here(
        fs=place.fs,
        clock=clock_of(place.fs),
        state_dir=state_dir,
        identity=JournalIdentity(identity.machine_id, identity.product_uuid, identity.node),
        journal_max_mebibytes=settings.journal.max_mebibytes,
        has_module=lambda name: importlib.util.find_spec(name) is not None,
        ask_agent=_agent_of(state_dir),
        ask_server=server_of(state_dir),
        zone=settings.site.zone,
        proposed_zone=propose_country(),
    )


def agents_directory(settings: Settings, given: Path | None) -> Path:
    """Return the state directory of the agent that runs here, if one does."""
    return given or settings.agent.state or default_state_dir(os.environ)


def _agent_of(state_dir: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda question: ask_agent(state_dir / SOCKET_NAME, question, ANSWER_SECONDS)


def _last_booked_in(state_dir: Path) -> Callable[[str | None, str], tuple[Slot, Entry] | None]:
    path = state_dir / FILE_NAME
    return lambda manager, unit: last_entry(path, manager, unit) if path.exists() else None


def _seconds_between(built: BuiltAgent, began_ns: int) -> float:
    """Return the time between the two steps; of a recorded host, between its two moments."""
    now_ns = built.clock.monotonic_ns()
    if built.host.is_recorded and built.host.has_two_moments:
        built.host.select_snapshot(0)
        began_ns = built.clock.monotonic_ns()
    return (now_ns - began_ns) / NANOSECONDS_PER_SECOND


def _target(found: Discovered) -> Target:
    """Return the target; without a scheme, plain HTTP is for loopback alone."""
    if "://" in found.address:
        return Target(found.address, found.address)
    host = found.address.rpartition(":")[0].strip("[]")
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    scheme = found.label(SCHEME_LABEL) or ("http" if is_loopback else "https")
    return Target(found.address, f"{scheme}://{found.address}")


def _meters(fs: HostFS, settings: Settings) -> Meters:
    """Return the meters that could be read, closed again: who asks what they are, not what they say."""
    _, meters = _open_meters(fs, settings)
    for meter in meters.meters:
        meter.close()
    return meters


def _ask(fs: HostFS, settings: Settings, access: GpuAccess) -> tuple[Meters, dict[str, MeterAnswer]]:
    """Return the meters that answered, closed again, and what they said; one that did not is down for that reason."""
    watches = access.open()
    try:
        start_gpus(watches, settings.gpu.start_seconds)
        context, meters = _open_meters(fs, settings, watches)
        answers = ask_copy(meters.meters, _moments(fs)) if fs.is_recorded else ask_meters(meters.meters)
        for meter in meters.meters:
            meter.close()
    finally:
        for watch in watches:
            watch.close()
    by_source = {meter.source: meter for meter in meters.meters}

    def again(status: SourceStatus) -> Plugin:
        answer = answers.get(status.source)
        failure = answer.failure if answer is not None and status.up else None
        return Plugin(status.source, lambda _: _found_or_raised(by_source.get(status.source), failure, status))

    return build_meters(context, [again(status) for status in meters.sources]), answers


def _moments(fs: HostFS) -> Iterator[int]:
    """Yield the times of a recorded host's moments, the tree turned to each; in the end it is back at the first."""
    clock = clock_of(fs)
    yield clock.monotonic_ns()
    if fs.has_two_moments:
        fs.select_snapshot(1)
        yield clock.monotonic_ns()
        fs.select_snapshot(0)


def _found_or_raised(meter: Meter | None, failure: Unavailable | None, status: SourceStatus) -> Meter:
    if failure is not None:
        raise failure
    if meter is None:
        raise Unavailable(status.reason, status.detail)
    return meter


def _open_meters(fs: HostFS, settings: Settings, gpus: Sequence[GpuSource] = ()) -> tuple[MeterContext, Meters]:
    topology = topology_of(fs)
    context = meter_context(fs, NodeCpu(topology, lambda: topology))
    context = replace(context, settings=settings.meters, node=identify(settings.agent, fs).node, gpus=gpus)
    context = with_calibration(context, settings.agent.state)
    return context, build_meters(context)


def _units(fs: HostFS, settings: Settings) -> Sequence[TrackedUnit]:
    """Return the units alive now, by one step of their sources."""
    clock = clock_of(fs)
    found: list[TrackedUnit] = []
    sources = open_unit_sources(fs, settings.units, clock, cgroups_version=settings.cgroups.version)
    try:
        for source in sources:
            source.step(clock.boottime_ns())
            found += source.live().values()
    finally:
        for source in sources:
            source.close()
    return found


def _gpus(fs: HostFS, settings: Settings, access: GpuAccess) -> Sequence[SeenGpus]:
    """Return the GPUs of each vendor, read once and closed again; whoever tells activity is asked where it lacks."""
    watches, released = access.open(), access.released()
    seen = []
    try:
        start_gpus(watches, settings.gpu.start_seconds)
        for watch in watches:
            outside = watch.outside if isinstance(watch, GpuWatch) else NothingOutside()
            found = watch.snapshot()
            if lacks_activity(found):
                outside.ask()
            seen.append(SeenGpus(watch.source, found, outside.states(), expected_gpus(fs, found), released))
    finally:
        for watch in watches:
            watch.close()
    return seen


def _gpu_claims(fs: HostFS, settings: Settings, access: GpuAccess) -> Sequence[ClaimSourceState]:
    """Return how each source of who holds a GPU does, by one look of all; nothing where there is no GPU."""
    watches = access.open()
    clock = clock_of(fs)
    sources = open_unit_sources(fs, settings.units, clock, cgroups_version=settings.cgroups.version)
    try:
        mapping = gpu_mapping(settings, fs, watches, sources, clock)
        if mapping is None:
            return ()
        start_gpus(watches, settings.gpu.start_seconds)
        for source in sources:
            source.step(clock.boottime_ns())
        mapping.holders.refresh()
        return mapping.holders.states()
    finally:
        for watch in watches:
            watch.close()
        for source in sources:
            source.close()


def _finds_program(name: str) -> bool:
    """Return whether a program is of use here: those of systemd are so only where it runs the machine."""
    is_of_systemd = name.startswith("systemd-") or name in ("systemctl", "timedatectl")
    return shutil.which(name) is not None and (not is_of_systemd or SYSTEMD.is_dir())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
