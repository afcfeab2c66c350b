"""Power in Redfish resources: which figure is the whole node's, and what is no figure at all.

`Power` (deprecated, still the one most BMCs fill in), `EnvironmentMetrics` and `Sensor`; DMTF DSP0268. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.errors import Unavailable
from kwhere.devices.json_answer import JsonValue, elements, finite, member, text

MAX_WATTS = 1_000_000.0
SENTINELS_WATTS = frozenset({65_535.0})
"""0xFFFF: what a BMC says that does not know. 0xFFFFFFFF is above MAX_WATTS."""
_MICRO = 1_000_000
_UJ_PER_KWH = 3_600_000_000_000
_PART_CONTEXTS = frozenset(
    {
        "Accelerator", "ASIC", "Backplane", "CPU", "CPUSubsystem", "Fan", "FPGA", "GPU", "GPUSubsystem", "Memory",
        "MemorySubsystem", "NetworkingDevice", "StorageDevice", "StorageSubsystem", "VoltageRegulator",
    }
)  # fmt: skip
_PART_NAME = re.compile(
    r"\b(cpus?|processors?|memory|dimms?|dram|gpus?|accelerators?|fans?|cooling|storage|disks?|drives?|psu ?\d*|pcie"
    r"|power suppl(y|ies)( \d+)?|backplane|nvme|nics?)\b",
    re.IGNORECASE,
)
_WHOLE_NAME = re.compile(r"\b(systems?|servers?|chassis|total|node|platform|baseboard)\b", re.IGNORECASE)
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|[_\W]+")
_WHOLE_LINK = re.compile(r"/redfish/v1/(Systems|Chassis)/[^/]+/?")


@dataclass(frozen=True, slots=True)
class PowerFigure:
    """What a BMC says of one chassis: watts, or energy since some beginning; never both."""

    power_uw: int | None = None
    energy_uj: int | None = None
    stamp: str = ""
    """The device's own time of the figure, where it tells one; tells a new figure from an old one."""


def watts_to_uw(value: JsonValue, place: str) -> int:
    """Return microwatts of a figure in watts.

    Raises Unavailable(`absent`) for null, 0 and less, text, NaN, sentinels: a node that answers draws something.
    """
    watts = finite(value)
    if watts is None or watts <= 0 or watts > MAX_WATTS or watts in SENTINELS_WATTS:
        raise Unavailable("absent", f"{place}: expected watts above 0, found {_shown(value)}")
    return round(watts * _MICRO)


def power_of_power(resource: Mapping[str, JsonValue], wanted: str | None, place: str) -> PowerFigure:
    """Return the node's power in a `Power` resource; `wanted` names a member of PowerControl by Name or MemberId.

    Fujitsu's iRMC may have no PowerControl and says the same under Oem. Raises Unavailable: unsupported, ambiguous,
    absent.
    """
    fujitsu = member(resource, "Oem", "ts_fujitsu", "ChassisPowerConsumption")
    if isinstance(fujitsu, Mapping) and not elements(resource.get("PowerControl")):
        return PowerFigure(
            power_uw=watts_to_uw(fujitsu.get("CurrentPowerConsumptionW"), f"{place}: CurrentPowerConsumptionW")
        )
    control = choose_control(elements(resource.get("PowerControl")), wanted, place)
    return PowerFigure(power_uw=watts_to_uw(control.get("PowerConsumedWatts"), f"{place}: PowerConsumedWatts"))


def choose_control(members: Sequence[JsonValue], wanted: str | None, place: str) -> Mapping[str, JsonValue]:
    """Return the member of PowerControl that stands for the whole; members are never summed, they lie in each other."""
    controls = [control for control in members if isinstance(control, Mapping)]
    names = ", ".join(_name(control) for control in controls[:8]) or "none"
    if wanted is not None:
        named = [control for control in controls if wanted in (_name(control), text(control.get("MemberId")))]
        if len(named) != 1:
            raise Unavailable("ambiguous", f"{place}: expected one PowerControl named {wanted}, found {names}")
        return named[0]
    whole = [control for control in controls if not _is_part(control)]
    if not whole:
        raise Unavailable("unsupported", f"{place}: expected a PowerControl of the system, found {names}")
    for narrower in (_is_linked, _is_named):
        if len(whole) > 1:
            whole = [control for control in whole if narrower(control)] or whole
    if len(whole) > 1:
        raise Unavailable("ambiguous", f"{place}: expected one PowerControl of the system, found {names}")
    return whole[0]


def power_of_environment(resource: Mapping[str, JsonValue], place: str) -> PowerFigure:
    """Return the power in an `EnvironmentMetrics` resource. Raises Unavailable: unsupported, absent."""
    if "PowerWatts" not in resource:
        raise Unavailable("unsupported", f"{place}: expected PowerWatts, found none")
    power = member(resource, "PowerWatts")
    stamp = text(member(power, "ReadingTime"))
    return PowerFigure(watts_to_uw(member(power, "Reading"), f"{place}: PowerWatts.Reading"), None, stamp)


def energy_of_environment(resource: Mapping[str, JsonValue], place: str) -> PowerFigure:
    """Return the energy counter in an `EnvironmentMetrics` resource: EnergyJoules, else EnergykWh.

    Raises Unavailable: unsupported, absent.
    """
    for name, unit_uj in (("EnergyJoules", _MICRO), ("EnergykWh", _UJ_PER_KWH)):
        if name in resource:
            counter = resource[name]
            figure = finite(member(counter, "Reading"))
            if figure is None or not 0 < figure * unit_uj < 1 << 62:
                raise Unavailable("absent", f"{place}: {name}: expected energy, found {_shown(counter)}")
            return PowerFigure(None, round(figure * unit_uj), text(member(counter, "ReadingTime")))
    raise Unavailable("unsupported", f"{place}: expected EnergyJoules or EnergykWh, found neither")


def power_of_sensor(resource: Mapping[str, JsonValue], place: str) -> PowerFigure:
    """Return the power that a `Sensor` resource shows. Raises Unavailable: unsupported, absent."""
    unit = text(resource.get("ReadingUnits"))
    if text(resource.get("ReadingType")) not in ("", "Power") or unit not in ("", "W", "kW", "mW"):
        found = _shown(resource.get("ReadingType"))
        raise Unavailable("unsupported", f"{place}: expected a sensor of power in watts, found {found} {unit}")
    state = text(member(resource, "Status", "State"))
    if state in ("Absent", "Disabled", "UnavailableOffline"):
        raise Unavailable("absent", f"{place}: the sensor is {state}")
    reading = finite(resource.get("Reading"))
    factor = {"kW": 1000.0, "mW": 0.001}.get(unit, 1.0)
    watts = None if reading is None else reading * factor
    return PowerFigure(watts_to_uw(watts, f"{place}: Reading"), None, text(resource.get("ReadingTime")))


def _is_part(control: Mapping[str, JsonValue]) -> bool:
    if text(control.get("PhysicalContext")) in _PART_CONTEXTS:
        return True
    return bool(_PART_NAME.search(_words(control)))


def _is_linked(control: Mapping[str, JsonValue]) -> bool:
    related = [text(member(link, "@odata.id")) for link in elements(control.get("RelatedItem"))]
    return any(_WHOLE_LINK.fullmatch(path) for path in related)


def _is_named(control: Mapping[str, JsonValue]) -> bool:
    return bool(_WHOLE_NAME.search(_words(control)))


def _words(control: Mapping[str, JsonValue]) -> str:
    """Return the name as words: `CPU_Power`, `CPUPower` and `cpu power` are the same."""
    return _WORDS.sub(" ", _name(control))


def _name(control: Mapping[str, JsonValue]) -> str:
    return text(control.get("Name")) or text(control.get("MemberId")) or "one without a name"


def _shown(value: JsonValue) -> str:
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) <= 40 else shown[:39] + "…"
