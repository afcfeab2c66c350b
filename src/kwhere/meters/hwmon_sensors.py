"""What each hwmon sensor measures: by chip and label, for chips whose meaning is documented; others are left alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.terms import DomainKind
from kwhere.kernel.hwmon import HwmonSensor
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


def _rule(chip: str, label: str, kind: DomainKind, *, alone: bool = False) -> _Rule:
    return _Rule(re.compile(chip, re.IGNORECASE), re.compile(label, re.IGNORECASE), kind, alone)


# Sources: Documentation/hwmon/{acpi_power_meter,amd_energy,ibmpowernv,ibmaem,xgene-hwmon,smpro-hwmon}.rst and NVIDIA's
# Grace tuning guide. An ACPI meter without a label measures the whole machine; Grace's meters say what they measure.
_RULES = (
    _rule(r"power_meter|acpi_power_meter", r"(?:CPU|SysIO) Power Socket (\d+)", DomainKind.CPU),
    _rule(r"power_meter|acpi_power_meter", r"(?!.*\bSocket\b).*", DomainKind.PLATFORM, alone=True),
    _rule(r"aem\d*", r".*", DomainKind.PLATFORM, alone=True),
    _rule(r"ibmpowernv", r"System", DomainKind.PLATFORM, alone=True),
    _rule(r"ibmpowernv", r"Chip (\d+)", DomainKind.CPU),
    _rule(r"amd_energy", r"Esocket(\d+)", DomainKind.CPU),
    _rule(r"apm_xgene", r"CPU power|(?:SoC|IO)\b.*", DomainKind.CPU),
    _rule(r"smpro\w*", r"(?:CPU|SoC)\b.*", DomainKind.CPU),
    _rule(r"smpro\w*", r"(?:DIMM|DRAM|Memory)\b.*", DomainKind.DRAM),
)


def place_sensors(sensors: Sequence[HwmonSensor]) -> list[HwmonZone]:
    """Return the sensors that measure a domain, each domain's physical part once."""
    sockets = _sockets_by_device(sensors)
    zones: list[HwmonZone] = []
    spoken: set[Domain] = set()
    for sensor in sensors:
        rule = _rule_of(sensor)
        if rule is None:
            continue
        domain = _domain(rule, sensor, sockets)
        if not (rule.alone and domain in spoken):
            zones.append(HwmonZone(sensor, domain))
        spoken.add(domain)
    return zones


def _rule_of(sensor: HwmonSensor) -> _Rule | None:
    return next((r for r in _RULES if r.chip.fullmatch(sensor.chip) and r.label.fullmatch(sensor.label)), None)


def _domain(rule: _Rule, sensor: HwmonSensor, sockets: dict[tuple[str, str], str]) -> Domain:
    if rule.kind is DomainKind.PLATFORM:
        return PLATFORM
    match = rule.label.fullmatch(sensor.label)
    named = match[1] if match is not None and rule.label.groups else None
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
