"""Puts `kwhere doctor` together: this host or a recorded one, and what checks may ask of it."""

import getpass
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kwhere.apps.agent import identify, meter_context, topology_of
from kwhere.apps.configuration import default_state_dir
from kwhere.apps.settings import Settings
from kwhere.core.errors import NotPermitted, SourceError, Unavailable
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.emission_factors.zones import propose_country
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.local import doctor_energy, doctor_kernel, doctor_process, doctor_state, doctor_units
from kwhere.local.agent_client import SOCKET_NAME, ask_agent
from kwhere.local.doctor import Check, examine
from kwhere.local.doctor_hints import hints
from kwhere.local.doctor_machine import container_of
from kwhere.local.doctor_place import Here, Place
from kwhere.meters.registry import Meters, build_meters
from kwhere.reports.sources import Hint
from kwhere.sampling.node_cpu import NodeCpu
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

ANSWER_SECONDS = 5.0


def examine_host(settings: Settings, state_dir: Path | None) -> list[Check]:
    """Return every check of the host that `settings` name; those of the running machine are left out for a copy."""
    place = place_of(settings)
    checks = [*examine(doctor_energy.CHECKS, place), *examine(doctor_units.CHECKS, place)]
    if place.fs.is_recorded:
        return checks + examine(doctor_kernel.CHECKS, place)
    here = here_of(settings, place, state_dir or settings.agent.state or default_state_dir(os.environ))
    checks += examine(doctor_process.UNIT_CHECKS, place)
    checks += [*examine(doctor_kernel.CHECKS, place), *examine(doctor_process.KERNEL_CHECKS, place)]
    return checks + examine(doctor_state.CHECKS, here)


def next_steps(settings: Settings) -> Sequence[Hint]:
    """Return what the Overview page shows as "What next". Looks at the energy sources alone: a few milliseconds."""
    return hints(examine(doctor_energy.CHECKS, place_of(settings)))


def place_of(settings: Settings) -> Place:
    """Return the host that `settings` name."""
    fs = HostFS(settings.path.procfs, settings.path.sysfs, settings.path.cgroupfs)
    return Place(
        fs=fs,
        settings=settings.units,
        cgroup_version=settings.cgroups.version,
        meters=cache(lambda: _meters(fs, settings)),
        units=cache(lambda: _units(fs, settings)),
        finds_program=lambda name: shutil.which(name) is not None,
        user=_user(),
        is_root=os.geteuid() == 0,
        container=None if fs.is_recorded else container_of(Path("/"), os.environ),
    )


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
        ask_agent=lambda question: ask_agent(state_dir / SOCKET_NAME, question, ANSWER_SECONDS),
        ask_server=_server_of(state_dir),
        zone=settings.site.zone,
        proposed_zone=propose_country(),
    )


def _meters(fs: HostFS, settings: Settings) -> Meters:
    topology = topology_of(fs)
    return build_meters(meter_context(fs, NodeCpu(topology, lambda: topology)))


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


def _server_of(state_dir: Path) -> Callable[[str], dict[str, Any]]:
    def ask(path: str) -> dict[str, Any]:
        url = (state_dir / "url").read_text().strip()
        token = _token_in(state_dir / "token")
        limits = HttpClientSettings(connect_timeout_seconds=ANSWER_SECONDS, read_timeout_seconds=ANSWER_SECONDS)
        with HttpClient(url, limits, token=token) as client:
            answer = client.get(f"/api/v1{path}")
        if answer.status in (401, 403):
            raise NotPermitted(f"{url}: status {answer.status}")
        if answer.status != 200:
            raise Unavailable("refused", f"{url}: status {answer.status}")
        document = json.loads(answer.body)
        if not isinstance(document, dict):
            raise SourceError(f"{url}: expected an object")
        return document

    return ask


def _token_in(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
