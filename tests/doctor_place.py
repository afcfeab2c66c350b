"""Places for checks of doctor: a recorded host, or a host of a few files made for one case."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.recorded_hosts import open_host

from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import CgroupVersion
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.local.doctor import Check, Examination, SubjectT, examine
from kwhere.local.doctor_place import Here, Place
from kwhere.meters.meter import MeterContext
from kwhere.meters.registry import Meters, SourceStatus, build_meters

MACHINE = JournalIdentity("3f2a", None, "n1")


def place_of(fs: HostFS, **changes: Any) -> Place:
    """Return the place of a host whose meters and units are those that the agent would find."""
    place = Place(
        fs=fs,
        settings=UnitsSettings(),
        cgroup_version=CgroupVersion.AUTO,
        meters=lambda: build_meters(MeterContext(fs, {0: "0"}, None, None, 1 << 34, dict)),
        units=lambda: _units(fs),
        finds_program=lambda _: False,
        user="alice",
    )
    return replace(place, **changes)


def recorded(name: str, **changes: Any) -> Place:
    """Return the place of a recorded host."""
    return place_of(open_host(name), **changes)


def made(directory: Path, files: Mapping[str, str]) -> HostFS:
    """Return a host of these files, by area path."""
    for path, text in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for area in ("proc", "sys", "cgroup"):
        (directory / area).mkdir(exist_ok=True)
    return HostFS(directory / "proc", directory / "sys", directory / "cgroup")


def with_sources(*sources: SourceStatus) -> Callable[[], Meters]:
    """Return meters of which none works, for these reasons."""
    return lambda: Meters((), sources, {}, ())


def here_in(directory: Path, **changes: Any) -> Here:
    """Return a machine with its state in `directory`, where nothing runs and everything is installed."""
    here = Here(
        fs=HostFS(),
        clock=SystemClock(),
        state_dir=directory,
        identity=MACHINE,
        journal_max_mebibytes=1,
        has_module=lambda _: True,
        ask_agent=_nobody,
        ask_server=_nobody,
    )
    return replace(here, **changes)


def found(table: Sequence[Examination[SubjectT]], subject: SubjectT) -> dict[str, Check]:
    """Return what a table of checks finds, by name."""
    return {check.name: check for check in examine(table, subject)}


def _nobody(_: object) -> dict[str, Any]:
    raise Unavailable("absent", "nobody is here")


def _units(fs: HostFS) -> list[TrackedUnit]:
    clock = clock_of(fs)
    sources = open_unit_sources(fs, UnitsSettings(), clock)
    try:
        units: list[TrackedUnit] = []
        for source in sources:
            source.step(clock.boottime_ns())
            units += source.live().values()
        return units
    finally:
        for source in sources:
            source.close()
