"""What a person is told of a node's meters, over hand-made windows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.core.timespan import Span
from kwhere.reports import agreement
from kwhere.reports.agreement import agreement_of, meter_rows
from kwhere.reports.reconciliation import MeterTrack, Reconciliation, power_chart, reconcile, window_seconds_of
from kwhere.series.functions import Grid

START = datetime(2026, 11, 29, tzinfo=UTC)
ALL = frozenset(Component)
COUNTED = {Component.CPU: (Method.COUNTER, "powercap")}
WINDOWS = st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=6, max_size=6)


def whole(source: str, *joules: float | None, covers: frozenset[Component] = ALL) -> MeterTrack:
    return MeterTrack(source, DomainKind.PLATFORM, frozenset(), joules, covers)


def part(source: str, kind: DomainKind, *joules: float | None, places: str = "0") -> MeterTrack:
    return MeterTrack(source, kind, frozenset(places), joules)


def held(*tracks: MeterTrack, speakers: dict[Component, tuple[Method, str]] | None = None) -> Reconciliation:
    count = len(tracks[0].joules)
    grid = Grid(int(START.timestamp() // 120) + 1, count, 120.0)
    return reconcile(Span(START, START + timedelta(seconds=120 * count)), grid, tracks, speakers or dict(COUNTED), None)


CPU = part("powercap", DomainKind.CPU, 12000.0, 12000.0, 12000.0)


def test_the_sentence_names_both_and_what_lies_beside() -> None:
    """Platform 18 kJ against 12 kJ in windows of 120 s: 50 W beside the components."""
    words = agreement_of(held(CPU, whole("redfish", 18000.0, 18000.0, 18000.0)))

    assert words.sentence == "BMC (redfish) agrees with the components within ±0 %, 50.0 W beside them."
    assert (words.short, words.disagrees, words.is_checked) == ("±0 %", False, True)


def test_a_gpu_outside_a_meter_is_not_taken_off_it() -> None:
    gpu = part("nvml", DomainKind.GPU, 60000.0, 60000.0, 60000.0)
    bmc = whole("ipmi_dcmi", 18000.0, 18000.0, 18000.0, covers=ALL - {Component.GPU})
    speakers = {**COUNTED, Component.GPU: (Method.COUNTER, "nvml")}

    outside = held(CPU, gpu, bmc, speakers=speakers)
    inside = held(CPU, gpu, whole("ipmi_dcmi", 18000.0, 18000.0, 18000.0), speakers=speakers)

    assert not agreement_of(outside).disagrees
    assert agreement_of(inside).causes[0] == agreement.CAUSE_GPUS_OUTSIDE


def test_meters_that_hold_other_components_are_no_disagreement() -> None:
    """psys without the GPU at 18 kJ, the BMC with it at 78 kJ."""
    gpu = part("nvml", DomainKind.GPU, 60000.0, 60000.0, 60000.0)
    psys = whole("psys", 18000.0, 18000.0, 18000.0, covers=ALL - {Component.GPU})
    speakers = {**COUNTED, Component.GPU: (Method.COUNTER, "nvml")}

    words = agreement_of(held(CPU, gpu, psys, whole("redfish", 78000.0, 78000.0, 78000.0), speakers=speakers))

    assert not words.disagrees
    assert "psys is 77 % below BMC (redfish)" in words.sentence


def test_half_of_what_another_shows_is_one_of_two_supplies() -> None:
    words = agreement_of(held(CPU, whole("redfish", *(36000.0,) * 3), whole("hwmon_power", *(18500.0,) * 3)))

    assert words.disagrees
    assert words.causes[0] == agreement.CAUSE_ONE_SUPPLY


def test_two_sources_of_the_cpu_are_compared_and_the_model_proves_nothing() -> None:
    amd = part("hwmon_energy", DomainKind.CPU, 12600.0, 12600.0, 12600.0)
    model = part("model", DomainKind.CPU, 24000.0, 24000.0, 24000.0)

    words = agreement_of(held(CPU, amd, model))

    assert words.sentence == "hwmon_energy is 5.0 % above powercap on cpu."
    assert not words.disagrees
    assert [(row.source, row.role) for row in meter_rows(held(CPU, amd, model))] == [
        ("powercap", "speaks"),
        ("hwmon_energy", "compared"),
        ("model", "estimate"),
    ]


def test_a_second_source_that_is_young_is_not_called_missing() -> None:
    """A BMC and a PDU after four minutes: two windows of two."""
    bmc, pdu = whole("redfish", 36000.0, 36000.0, None), whole("http_json", 37000.0, 37000.0, None)

    words = agreement_of(held(bmc, pdu))

    assert words.sentence == "BMC (redfish) and http_json: not enough yet, 6 min that all know are needed."
    assert (words.short, words.is_checked, words.disagrees) == (agreement.NOT_YET, False, False)


def test_a_young_meter_of_the_node_beside_its_components_is_not_called_missing() -> None:
    words = agreement_of(held(part("powercap", DomainKind.CPU, 1.0, None, None), whole("redfish", 2.0, None, None)))

    assert "not enough yet" in words.sentence
    assert words.short == agreement.NOT_YET


def test_other_sockets_are_another_thing() -> None:
    words = agreement_of(held(CPU, part("hwmon_energy", DomainKind.CPU, *(12600.0,) * 3, places="01")))

    assert words.short == agreement.NO_SECOND


def test_nothing_scraped_is_told_so() -> None:
    assert (
        "no meter was scraped"
        in agreement_of(reconcile(Span(START, START + timedelta(hours=1)), Grid(1, 0, 300.0), [], {}, None)).sentence
    )


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        (timedelta(minutes=15), 120),
        (timedelta(hours=1), 300),
        (timedelta(days=1), 1800),
        (timedelta(days=7), 21600),
        (timedelta(days=30), 86400),
    ],
)
def test_windows_grow_with_the_span(length: timedelta, seconds: float) -> None:
    assert window_seconds_of(Span(START, START + length)) == seconds


def test_the_chart_has_gaps_where_nothing_is_known() -> None:
    chart = power_chart(held(CPU, whole("redfish", 18000.0, None, 18000.0)))

    assert chart is not None
    assert {column.label: column.values for column in chart.columns} == {
        "redfish": (150.0, None, 150.0),
        "components": (100.0, 100.0, 100.0),
        "redfish − components": (50.0, None, 50.0),
    }


@given(WINDOWS, WINDOWS, WINDOWS, st.sampled_from(["redfish", "psys", "ipmi_dcmi", "some_new_meter"]))
def test_there_is_always_a_sentence(
    first: list[float | None], second: list[float | None], cpu: list[float | None], source: str
) -> None:
    found = held(part("powercap", DomainKind.CPU, *cpu), whole("hwmon_power", *first), whole(source, *second))

    words = agreement_of(found)

    assert words.sentence.endswith(".")
    assert len(words.sentence) > 10
    assert words.disagrees or not words.causes
    assert meter_rows(found)
