"""What each hwmon sensor measures: by chip and label, for chips whose meaning is documented; others are left alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.terms import Component, DomainKind
from kwhere.kernel.hwmon import HwmonSensor
from kwhere.meters.hwmon_settings import SiteSensor
from kwhere.meters.meter import PLATFORM, Domain


@dataclass(frozen=True, slots=True)
class HwmonZone:
    """A sensor and the domain that it counts for."""

    sensor: HwmonSensor
    domain: Domain

    @property
    def name(self) -> str:
        """Return a name that stays the same across restarts."""
        return f"{self.sensor.device}/{self.sensor.chip}/{self.sensor.number}"


@dataclass(frozen=True, slots=True)
class _Rule:
    chip: re.Pattern[str]
    label: re.Pattern[str]
    """A group 1, where there is one, is the socket."""
    kind: DomainKind
    alone: bool = False
    """Whether only the first such sensor counts: more of them would be the same node again."""
    rank: int = 0
    """Of several kinds of platform sensor the lowest speaks: they lie inside each other."""
    covers: frozenset[Component] = frozenset(Component)
    """Components inside a platform sensor."""


def _rule(
    chip: str,
    label: str,
    kind: DomainKind,
    *,
    alone: bool = False,
    rank: int = 0,
    covers: frozenset[Component] = frozenset(Component),
) -> _Rule:
    return _Rule(re.compile(chip, re.IGNORECASE), re.compile(label, re.IGNORECASE), kind, alone, rank, covers)


# Sources: Documentation/hwmon/{acpi_power_meter,amd_energy,ibmpowernv,ibmaem,xgene-hwmon,smpro-hwmon}.rst and NVIDIA's
# Grace tuning guide. An ACPI meter without a label measures the whole machine; Grace's meters say what they measure:
# the module (with its GPU), in it the Grace (with its memory), in it cores and system part. None sees the board.
_GRACE = r"power_meter|acpi_power_meter"
_RULES = (
    _rule(_GRACE, r"(?:CPU|SysIO) Power Socket (\d+)", DomainKind.CPU),
    _rule(_GRACE, r"Module Power Socket (\d+)", DomainKind.PLATFORM, rank=1),
    _rule(
        _GRACE,
        r"Grace Power Socket (\d+)",
        DomainKind.PLATFORM,
        rank=2,
        covers=frozenset({Component.CPU, Component.DRAM, Component.OTHER}),
    ),
    _rule(r"power_meter|acpi_power_meter", r"(?!.*\bSocket\b).*", DomainKind.PLATFORM, alone=True),
    _rule(r"aem\d*", r".*", DomainKind.PLATFORM, alone=True),
    _rule(r"ibmpowernv", r"System", DomainKind.PLATFORM, alone=True),
    _rule(r"ibmpowernv", r"Chip (\d+)", DomainKind.CPU),
    _rule(r"amd_energy|zenergy", r"Esocket(\d+)", DomainKind.CPU),  # zenergy: amd_energy as it went on out of tree
    _rule(r"apm_xgene", r"CPU power|(?:SoC|IO)\b.*", DomainKind.CPU),
    _rule(r"smpro\w*", r"(?:CPU|SoC)\b.*", DomainKind.CPU),
    _rule(r"smpro\w*", r"(?:DIMM|DRAM|Memory)\b.*", DomainKind.DRAM),
)


@dataclass(frozen=True, slots=True)
class PlacedSensors:
    """The sensors that measure a domain, and which components lie inside their platform."""

    zones: list[HwmonZone]
    covers: frozenset[Component]


def place_sensors(sensors: Sequence[HwmonSensor], own: Sequence[SiteSensor] = ()) -> PlacedSensors:
    """Return the sensors that measure a domain, each domain's physical part once; `own` are the site's rules."""
    rules = (*(_rule(one.chip, one.label, one.domain) for one in own), *_RULES)
    ruled = [(rule, sensor) for sensor in sensors if (rule := _rule_of(sensor, rules)) is not None]
    ruled = _one_platform(ruled)
    sockets = _sockets_by_device(sensors)
    zones: list[HwmonZone] = []
    spoken: set[Domain] = set()
    for rule, sensor in ruled:
        domain = _domain(rule, sensor, sockets)
        if not (rule.alone and domain in spoken):
            zones.append(HwmonZone(sensor, domain))
        spoken.add(domain)
    platforms = [rule.covers for rule, _ in ruled if rule.kind is DomainKind.PLATFORM]
    return PlacedSensors(zones, platforms[0] if platforms else frozenset())


def _one_platform(ruled: Sequence[tuple[_Rule, HwmonSensor]]) -> list[tuple[_Rule, HwmonSensor]]:
    """Return the sensors without platform sensors that lie inside a better one, or that leave a socket out."""
    named = {number for rule, sensor in ruled if (number := _number(rule, sensor)) is not None}
    ranks: dict[int, set[str]] = {}
    for rule, sensor in ruled:
        if rule.kind is DomainKind.PLATFORM:
            ranks.setdefault(rule.rank, set()).add(_number(rule, sensor) or "")
    whole = [rank for rank, numbers in sorted(ranks.items()) if rank == 0 or numbers >= named]
    best = whole[0] if whole else None
    return [(r, sensor) for r, sensor in ruled if r.kind is not DomainKind.PLATFORM or r.rank == best]


def _number(rule: _Rule, sensor: HwmonSensor) -> str | None:
    """Return the socket that a label names."""
    match = rule.label.fullmatch(sensor.label)
    return match[1] if match is not None and rule.label.groups else None


def _rule_of(sensor: HwmonSensor, rules: Sequence[_Rule]) -> _Rule | None:
    return next((r for r in rules if r.chip.fullmatch(sensor.chip) and r.label.fullmatch(sensor.label)), None)


def _domain(rule: _Rule, sensor: HwmonSensor, sockets: dict[tuple[str, str], str]) -> Domain:
    if rule.kind is DomainKind.PLATFORM:
        return PLATFORM
    named = _number(rule, sensor)
    return Domain(rule.kind, named if named is not None else sockets[sensor.chip, sensor.device])


def _sockets_by_device(sensors: Sequence[HwmonSensor]) -> dict[tuple[str, str], str]:
    """Return the socket of chips that come one per socket and do not say which: their rank."""
    chips = sorted({(sensor.chip, sensor.device) for sensor in sensors})
    ranks: dict[str, int] = {}
    sockets = {}
    for chip, device in chips:
        sockets[chip, device] = str(ranks.get(chip, 0))
        ranks[chip] = ranks.get(chip, 0) + 1
    return sockets
