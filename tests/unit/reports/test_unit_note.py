"""The line that stands in a manager's own records: short, read back, and never over another's text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_units import UNITS

from kwhere.core.terms import Component, Flag, Method
from kwhere.database.power_records import PartEnergy
from kwhere.database.records import UnitRecord
from kwhere.reports.unit_note import MARKER, merge_note, parse_note, unit_note

OURS = "kwhere1:kwh=0.5;cpu_eff=0.9"
JOBSTATS = "JS1:H4sIAAAAAAAA/6tWyi9KSS1SsqqGMBSs9HQUlHJS00qUrAx1lHIT8zLTUotLlKwMamsBtMlvay8AAAA="


def unit_record(**changes: object) -> UnitRecord:
    return replace(UNITS[0], **changes)  # type: ignore[arg-type]


def test_a_line_has_energy_emissions_and_cpu_efficiency() -> None:
    energy = {Component.CPU: PartEnergy(3_600_000_000_000, 900_000_000_000)}
    record = unit_record(
        energy_uj=energy, energy_total_uj=4_500_000_000_000, emissions_grams=62.5, method=Method.COUNTER
    )

    line = unit_note(record)

    assert line is not None
    assert line.startswith(f"{MARKER}kwh=1.25;co2e_g=62.5;cpu_eff=")
    assert parse_note(line)["kwh"] == "1.25"
    assert float(parse_note(line)["cpu_eff"]) == pytest.approx(record.cpu_efficiency_ratio or 0, abs=5e-4)
    assert len(line) < 100
    assert set(line) <= set("abcdefghijklmnopqrstuvwxyz0123456789_=.;:-+")


def test_what_is_not_known_is_left_out_and_no_energy_is_no_line() -> None:
    record = unit_record(emissions_grams=None, cpu_efficiency_ratio=None, quality=frozenset({Flag.LOST}))

    assert parse_note(unit_note(record) or "").keys() == {"kwh", "method", "lost"}
    assert unit_note(unit_record(energy_uj={}, is_reported=False)) is None


@pytest.mark.parametrize("energy_uj", [1, 360, 123_456_789, 10**18, 2**62])
def test_no_energy_is_too_small_or_too_large_to_read(energy_uj: int) -> None:
    record = unit_record(energy_uj={Component.CPU: PartEnergy(energy_uj, 0)}, energy_total_uj=energy_uj)

    kwh = parse_note(unit_note(record) or "")["kwh"]

    assert "e" not in kwh
    assert float(kwh) == pytest.approx(energy_uj / 3.6e12, rel=1e-5)


@pytest.mark.parametrize(
    ("standing", "left", "appended"),
    [
        ("", OURS, OURS),
        ("  ", OURS, OURS),
        ("kwhere1:kwh=0.4", OURS, OURS),
        ("kwhere2:kwh=0.4;x=y", OURS, OURS),
        (OURS, OURS, OURS),
        (JOBSTATS, None, f"{JOBSTATS} {OURS}"),
        ("JS1:None", None, f"JS1:None {OURS}"),
        ("by hand: kwhere1:kwh=1", None, f"by hand: {OURS}"),
        (f"{JOBSTATS} kwhere1:kwh=0.4", None, f"{JOBSTATS} {OURS}"),
        (f"kwhere1:kwh=0.4 {JOBSTATS}", None, f"{OURS} {JOBSTATS}"),
        ("xkwhere1:kwh=1", None, f"xkwhere1:kwh=1 {OURS}"),
        ("kwhere: a note on kwhere", None, f"kwhere: a note on kwhere {OURS}"),
    ],
)
def test_another_tools_text_is_left_or_kept(standing: str, left: str | None, appended: str) -> None:
    assert merge_note(standing, OURS, appends=False) == left
    assert merge_note(standing, OURS, appends=True) == appended
    assert merge_note(appended, OURS, appends=True) == appended


@given(st.text())
def test_whatever_stands_there_is_still_there(standing: str) -> None:
    assert merge_note(standing, OURS, appends=False) in (None, OURS)
    merged = merge_note(standing, OURS, appends=True)
    assert merged is not None
    assert parse_note(merged) == {"kwh": "0.5", "cpu_eff": "0.9"}
    if "kwhere" not in standing:
        assert merged.startswith(standing.rstrip())


@given(st.text())
def test_any_text_is_read_or_is_nothing(text: str) -> None:
    assert isinstance(parse_note(text), dict)
