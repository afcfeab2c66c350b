"""Power figures in Redfish resources: which member is the node, and any JSON is a figure or a drawn error."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.json_answer import parse_json, parse_object
from kwhere.devices.redfish_power import (
    MAX_WATTS,
    choose_control,
    energy_of_environment,
    power_of_environment,
    power_of_power,
    power_of_sensor,
    watts_to_uw,
)

WATT = 1_000_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("PowerControl", "PowerConsumedWatts", "Name", "MemberId", "PowerWatts", "Reading", "ReadingTime",
         "EnergyJoules", "EnergykWh", "ReadingType", "ReadingUnits", "Status", "State", "RelatedItem", "@odata.id",
         "PhysicalContext", "Oem", "ts_fujitsu", "ChassisPowerConsumption", "CurrentPowerConsumptionW")  # fmt: skip
REDFISH = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
READERS: list[Callable[[Mapping[str, Any]], Any]] = [
    lambda resource: power_of_power(resource, None, "p"),
    lambda resource: power_of_power(resource, "System", "p"),
    lambda resource: power_of_environment(resource, "p"),
    lambda resource: energy_of_environment(resource, "p"),
    lambda resource: power_of_sensor(resource, "p"),
]


@given(body=st.binary(max_size=200))
@example(body=b"9" * 5000)
@example(body=b"[" * 100_000)
@example(body=b'"\\ud800"')
def test_any_bytes_are_json_or_a_source_error(body: bytes) -> None:
    for parse in (parse_json, parse_object):
        try:
            parse(body, "place")
        except SourceError as error:
            said = str(error)
        else:
            said = "place: expected "
        assert said.startswith("place: expected ")


@given(resource=st.dictionaries(st.sampled_from(NAMES), REDFISH, max_size=5))
def test_any_resource_is_a_plausible_figure_or_unavailable(resource: dict[str, Any]) -> None:
    for read in READERS:
        reason, value = "absent", 0
        try:
            figure = read(resource)
        except Unavailable as error:
            reason = error.reason
        else:
            value = figure.power_uw if figure.power_uw is not None else figure.energy_uj
        assert reason in ("absent", "unsupported", "ambiguous")
        assert 0 <= value < 1 << 62


@given(watts=st.floats(min_value=1e-3, max_value=MAX_WATTS).filter(lambda watts: watts != 65535))
def test_watts_become_microwatts(watts: float) -> None:
    assert abs(watts_to_uw(watts, "p") - watts * 1e6) <= 0.5


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["System Power Control"], 0),
        (["Sensor 7"], 0),
        (["CPU Sub-system Power", "Server Power Control"], 1),
        (["CPU_Power", "Total_Power", "MemoryPower", "GPU3Power"], 1),
        (["CPUPower", "GPUPower", "ChassisPower"], 2),
        (["PSU1 Power", "PSU2 Power", "System Input Power"], 2),
        (["Power Supply 1", "Power Supply 2", "Node"], 2),
        (["Fan Power", "Backplane", "Board"], 2),
        (["Chassis Power Control", "Reserve"], 0),
    ],
)
def test_the_whole_is_told_from_its_parts_by_name(names: list[str], chosen: int) -> None:
    members: list[Any] = [{"Name": name, "PowerConsumedWatts": 100 + number} for number, name in enumerate(names)]

    assert choose_control(members, None, "p") is members[chosen]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["CPU Power", "Memory Power"], "unsupported"),
        (["GPU Power"], "unsupported"),
        (["PSU1", "PSU2"], "unsupported"),
        ([], "unsupported"),
        (["A", "B"], "ambiguous"),
        (["System Power A", "System Power B"], "ambiguous"),
    ],
)
def test_where_no_member_or_several_are_the_whole_none_is(names: list[str], reason: str) -> None:
    with pytest.raises(Unavailable) as caught:
        choose_control([{"Name": name} for name in names], None, "p")
    assert caught.value.reason == reason


def test_a_link_to_the_system_counts_before_a_name() -> None:
    linked: Any = {"Name": "A", "RelatedItem": [{"@odata.id": "/redfish/v1/Systems/1"}]}
    part: Any = {"Name": "B", "RelatedItem": [{"@odata.id": "/redfish/v1/Systems/1/Processors/1"}]}

    assert choose_control([part, {"Name": "Total"}, linked], None, "p") is linked


@pytest.mark.parametrize(
    ("sensor", "power_uw"),
    [
        ({"Reading": 1.25, "ReadingUnits": "kW", "ReadingType": "Power"}, 1250 * WATT),
        ({"Reading": 250, "ReadingUnits": "mW"}, WATT // 4),
        ({"Reading": 99.5}, 99_500_000),
    ],
)
def test_a_sensor_has_units(sensor: dict[str, Any], power_uw: int) -> None:
    assert power_of_sensor(sensor, "p").power_uw == power_uw


@pytest.mark.parametrize(
    ("sensor", "reason"),
    [
        ({"Reading": 30, "ReadingType": "Temperature", "ReadingUnits": "Cel"}, "unsupported"),
        ({"Reading": 30, "ReadingType": "Power", "ReadingUnits": "J"}, "unsupported"),
        ({"Reading": 30, "Status": {"State": "Absent"}}, "absent"),
        ({"Reading": "30"}, "absent"),
        ({}, "absent"),
    ],
)
def test_what_is_no_sensor_of_power(sensor: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unavailable) as caught:
        power_of_sensor(sensor, "p")
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", [0, -1, None, "5", float("nan"), 1e30])
def test_an_energy_of_nothing_is_absent(value: object) -> None:
    with pytest.raises(Unavailable) as caught:
        energy_of_environment({"EnergykWh": {"Reading": value}}, "p")  # type: ignore[dict-item]
    assert caught.value.reason == "absent"
