"""Fields of `--format`: as sacct takes them, and whatever is typed."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.job_units import JOB, PLAIN

from kwhere.cli.table import columns_of
from kwhere.cli.unit_fields import FIELDS, USUAL, parse_format
from kwhere.cli.unit_questions import parse_sort
from kwhere.cli.unit_table import unit_lines


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("id", [("id", None, False)]),
        ("JobID%20,State%-9", [("id", 20, False), ("state", 9, True)]),
        (" name , user ", [("name", None, False), ("user", None, False)]),
    ],
)
def test_fields_with_their_widths(text: str, chosen: list[tuple[str, int | None, bool]]) -> None:
    assert [(choice.field.name, choice.width, choice.is_left) for choice in parse_format(text)] == chosen


def test_a_plus_at_the_front_adds_to_the_usual_fields() -> None:
    names = [choice.field.name for choice in parse_format("+queue,nodes")]

    assert names == [*(choice.field.name for choice in USUAL), "queue", "nodes"]


def test_what_waits_has_a_place_and_an_expected_start() -> None:
    waits = {**PLAIN, "priority": 4_294_901_759.0, "expected_start_at": "2026-11-29T12:00:00Z"}

    place, start = (choice.field for choice in parse_format("priority,expected_start_at"))

    assert (place.text(waits), start.value(waits)) == ("4294901759", "2026-11-29T12:00:00Z")
    assert (place.text(PLAIN), start.text(PLAIN)) == ("–", "–")


@given(st.text(max_size=40))
def test_any_text_is_fields_or_a_clear_error(text: str) -> None:
    try:
        chosen = parse_format(text)
    except click.UsageError as error:
        said = error.message
    else:
        assert chosen
        said = "--helpformat"
    assert "--helpformat" in said


@given(st.text(max_size=20))
def test_any_sort_is_one_or_a_clear_error(text: str) -> None:
    said = "--sort: expected one of energy, power, cpu, gpu, start, end, found"
    try:
        parse_sort(text)
    except click.UsageError as error:
        said = error.message
    assert "--sort: expected one of energy, power, cpu, gpu, start, end, found" in said


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("nonsense", "found 'nonsense'"),
        ("json", "found 'json'; for JSON say --json"),
        ("unit,csv", "found 'csv'; for CSV say --csv"),
    ],
)
def test_a_field_that_there_is_not_is_told_by_the_options_own_names(text: str, end: str) -> None:
    with pytest.raises(click.UsageError, match=r"^-o, --format: expected a field") as caught:
        parse_format(text)

    assert caught.value.message.endswith(end)


def test_names_of_fields_and_of_sacct_are_told_apart() -> None:
    names = [name for field in FIELDS for name in (field.name, *field.sacct)]

    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_field_of_a_unit_can_be_read(field: object) -> None:
    for item in (JOB, PLAIN, {**PLAIN, "started_at": None, "ended_at": None, "cpu_seconds": None, "allocation": None}):
        assert isinstance(field.text(item), str)  # type: ignore[attr-defined]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "unit": st.text(min_size=1, max_size=60),
                "name": st.none() | st.text(max_size=60),
                "user": st.none() | st.text(max_size=60),
                "state": st.text(max_size=40),
                "energy_joules_total": st.none() | st.floats(0, 1e15),
                "power_watts": st.none() | st.floats(0, 1e9),
                "cost": st.none() | st.floats(0, 1e9),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_list_of_units_is_wider_than_80_columns(changes: list[dict[str, object]]) -> None:
    lines = unit_lines([{**JOB, **change, "labels": {}} for change in changes], 80)

    assert max(columns_of(line) for line in lines) <= 80
    assert len(lines) == len(changes) + 1


def test_the_columns_of_csv_keep_their_places() -> None:
    """A contract: scripts cut columns by number. New ones go to the end."""
    assert [choice.field.name for choice in USUAL][:20] == [
        *("cluster", "manager", "unit", "run", "name", "user", "project", "state", "started_at", "ended_at"),
        *("power_watts", "energy_joules", "cpu_seconds", "emissions_grams", "method", "gpus_allocated"),
        *("gpu_busy_seconds", "gpu_utilization_ratio", "gpu_held_idle_seconds", "gpu_held_idle_joules"),
    ]
