"""What is journalled with each slot so that a restart in the same boot loses nothing that the kernel still holds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.terms import DomainKind
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading
from kwhere.energy.baseline import BaselineState, QuietWindow
from kwhere.energy.platform import Modelled, PlatformState
from kwhere.energy.zone import DomainState, ZoneState
from kwhere.meters.meter import Domain
from kwhere.sampling.cpu_book import CpuMark
from kwhere.sampling.gpu_shown import UnitGpuPlace
from kwhere.sampling.guest_book import GuestCounter

FORMAT = 1

Place = tuple[str, Domain]
"""A source and one of its domains."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """Raw counters, carries and readings at the end of a slot. Written as one line of JSON."""

    boot_id: str
    utc_ns: int
    """End of the slot."""
    monotonic_ns: int
    boottime_ns: int
    cpu_ticks: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """user, nice, system, irq, softirq of each CPU."""
    socket_carry_ns: Sequence[int] = ()
    marks: Mapping[UnitKey, CpuMark] = field(default_factory=dict)
    directories: Mapping[str, int] = field(default_factory=dict)
    container_carries: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[UnitKey, Mapping[str, int]] = field(default_factory=dict)
    scans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What each unit source identifies its last scan by, by the source's class."""
    domains: Mapping[Place, DomainState] = field(default_factory=dict)
    platform: tuple[str, PlatformState] | None = None
    """The platform meter in use, by source."""
    baselines: Mapping[Place, BaselineState] = field(default_factory=dict)
    guests: Mapping[UnitKey, GuestCounter] = field(default_factory=dict)
    """What this host's guests are told of themselves."""
    idle_gpus: Mapping[UnitGpuPlace, int] = field(default_factory=dict)
    """Monotonic time since which a unit's GPU or instance has been held idle."""

    @property
    def runs(self) -> Mapping[int, str]:
        """Return the run taken for each cgroup inode of this boot."""
        return {mark.inode: key.run for key, mark in self.marks.items() if mark.inode is not None}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(
            {
                "format": FORMAT,
                "boot_id": self.boot_id,
                "utc_ns": self.utc_ns,
                "monotonic_ns": self.monotonic_ns,
                "boottime_ns": self.boottime_ns,
                "cpu_ticks": {str(cpu): list(ticks) for cpu, ticks in self.cpu_ticks.items()},
                "socket_carry_ns": list(self.socket_carry_ns),
                "units": [_write_unit(key, mark, self.details.get(key, {})) for key, mark in self.marks.items()],
                "directories": dict(self.directories),
                "container_carries": dict(self.container_carries),
                "scans": {name: dict(scan) for name, scan in self.scans.items()},
                "domains": [[*_write_place(place), _write_domain(state)] for place, state in self.domains.items()],
                "platform": None if self.platform is None else [self.platform[0], _write_platform(self.platform[1])],
                "baselines": [
                    [*_write_place(place), _write_baseline(state)] for place, state in self.baselines.items()
                ],
                "guests": [
                    [[key.manager, key.unit, key.run], counter.epoch, list(counter.energy_uj)]
                    for key, counter in self.guests.items()
                ],
                "idle_gpus": [
                    [[key.manager, key.unit, key.run], *place, since_ns]
                    for (key, *place), since_ns in self.idle_gpus.items()
                ],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> "SavedState":
        """Return the state written by `to_json`. Raises SourceError for anything else."""
        try:
            record = json.loads(text)
            if record["format"] != FORMAT:
                raise SourceError(f"saved state: expected format {FORMAT}, found {record['format']!r}")
            return cls._from_record(record)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise SourceError(f"saved state: expected what a slot was saved with, found {error!r}") from error

    @classmethod
    def _from_record(cls, record: Mapping[str, Any]) -> "SavedState":
        units = [_read_unit(unit) for unit in record["units"]]
        return cls(
            boot_id=str(record["boot_id"]),
            utc_ns=int(record["utc_ns"]),
            monotonic_ns=int(record["monotonic_ns"]),
            boottime_ns=int(record["boottime_ns"]),
            cpu_ticks={int(cpu): tuple(map(int, ticks)) for cpu, ticks in record["cpu_ticks"].items()},
            socket_carry_ns=tuple(map(int, record["socket_carry_ns"])),
            marks={key: mark for key, mark, _ in units},
            directories=_integers(record["directories"]),
            container_carries=_integers(record["container_carries"]),
            details={key: details for key, _, details in units if details},
            scans={str(name): _integers(scan) for name, scan in record["scans"].items()},
            domains={_read_place(*place): _read_domain(state) for *place, state in record["domains"]},
            platform=_read_platform(*record["platform"]) if record["platform"] else None,
            baselines={_read_place(*place): _read_baseline(state) for *place, state in record["baselines"]},
            guests={
                UnitKey(*map(str, key)): GuestCounter(str(epoch), tuple(map(int, energy_uj)))
                for key, epoch, energy_uj in record.get("guests", ())
            },
            idle_gpus={
                (UnitKey(*map(str, key)), str(device), str(instance)): int(since_ns)
                for key, device, instance, since_ns in record.get("idle_gpus", ())
            },
        )


def _integers(record: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(value) for name, value in record.items()}


def _write_unit(key: UnitKey, mark: CpuMark, details: Mapping[str, int]) -> list[object]:
    reading = mark.reading
    return [
        [key.manager, key.unit, key.run],
        mark.inode,
        mark.cgroup,
        mark.time_ns,
        [reading.total_ns, reading.user_ns, reading.system_ns],
        dict(details),
    ]


def _read_unit(record: Sequence[Any]) -> tuple[UnitKey, CpuMark, dict[str, int]]:
    (manager, unit, run), inode, cgroup, time_ns, (total_ns, user_ns, system_ns), details = record
    reading = CpuReading(int(total_ns), user_ns, system_ns)
    return UnitKey(manager, unit, run), CpuMark(reading, int(time_ns), inode, cgroup), _integers(details)


def _write_place(place: Place) -> list[str]:
    source, domain = place
    return [source, domain.kind.value, domain.index]


def _read_place(source: str, kind: str, index: str) -> Place:
    return source, Domain(DomainKind(kind), index)


def _write_domain(state: DomainState) -> dict[str, object]:
    zones: dict[str, list[object]] = {}
    for name, zone in state.zones.items():
        zones[name] = [zone.time_ns, zone.counter_uj, zone.power_uw, zone.remainder]
        if zone.idle_uj is not None or zone.epoch is not None:
            zones[name] += [zone.idle_uj, zone.epoch]
    return {"last_ns": state.last_ns, "zones": zones}


def _read_domain(record: Mapping[str, Any]) -> DomainState:
    return DomainState(int(record["last_ns"]), {name: ZoneState(*zone) for name, zone in record["zones"].items()})


def _write_platform(state: PlatformState) -> dict[str, object]:
    def amounts(energies: Mapping[str, Modelled]) -> dict[str, list[int]]:
        return {name: [energy.dynamic_uj, energy.idle_uj] for name, energy in energies.items()}

    return {
        "carry_uj": state.carry_uj,
        "measured_uj": dict(state.measured_uj),
        "covered_ns": dict(state.covered_ns),
        "pending": amounts(state.pending),
        "waiting": amounts(state.waiting),
        "spoiled": state.spoiled,
    }


def _read_platform(source: str, record: Mapping[str, Any]) -> tuple[str, PlatformState]:
    def energies(amounts: Mapping[str, Sequence[Any]]) -> dict[str, Modelled]:
        return {name: Modelled(int(dynamic), int(idle)) for name, (dynamic, idle) in amounts.items()}

    return str(source), PlatformState(
        carry_uj=int(record["carry_uj"]),
        measured_uj=_integers(record["measured_uj"]),
        covered_ns=_integers(record["covered_ns"]),
        pending=energies(record["pending"]),
        waiting=energies(record["waiting"]),
        spoiled=bool(record["spoiled"]),
    )


def _write_baseline(state: BaselineState) -> list[object]:
    return [state.learned_uw, state.learned_utc_ns, [[w.end_utc_ns, w.mean_uw] for w in state.windows]]


def _read_baseline(record: Sequence[Any]) -> BaselineState:
    learned_uw, learned_utc_ns, windows = record
    return BaselineState(tuple(QuietWindow(int(end), int(mean)) for end, mean in windows), learned_uw, learned_utc_ns)
