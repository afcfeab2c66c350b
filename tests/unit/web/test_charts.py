"""Chart data for the page's script and the table in its place."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database.power_records import ComponentShares, PowerPoint
from kwhere.series.charts import Chart, ChartColumn
from kwhere.web.charts import PageChart, PageSeries, fold_cpu_modes, power_stack, series_chart

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HOUR = Span(START, START + timedelta(hours=1))
UTC_ZONE = ZoneInfo("UTC")


def _point(minute: int, shares: ComponentShares | None, node_seconds: float = 60.0, nodes: int = 1) -> PowerPoint:
    start = START + timedelta(minutes=minute)
    components = {} if shares is None else {Component.CPU: shares}
    return PowerPoint(Span(start, start + timedelta(minutes=1)), components, node_seconds, nodes)


def test_power_is_energy_over_the_time_that_is_accounted() -> None:
    # 60 s at 10 W dynamic, 5 W idle, 2 W system, 3 W unallocated; then the same power, only 30 s of it booked yet.
    whole = ComponentShares(600_000_000, 300_000_000, 120_000_000, 180_000_000)
    half = ComponentShares(300_000_000, 150_000_000, 60_000_000, 90_000_000)

    chart = power_stack("p", "Power", [_point(0, whole), _point(1, half, 30.0)], HOUR)

    assert [series.label for series in chart.series] == ["cpu dynamic", "cpu idle", "system", "unallocated"]
    assert [list(series.values) for series in chart.series] == [[10] * 3, [5] * 3, [2] * 3, [3] * 3]
    assert chart.totals() == [20, 20, 20]
    assert list(chart.times) == [START.timestamp() + seconds for seconds in (0, 60, 120)]


def test_two_nodes_are_added() -> None:
    shares = ComponentShares(600_000_000, 0, 0, 0)

    chart = power_stack("p", "Power", [_point(0, shares, 120.0, 2)], HOUR)

    assert list(chart.series[0].values) == [10, 10]


def test_two_slots_of_one_node_in_a_bucket_are_not_two_nodes() -> None:
    shares, twice = ComponentShares(600_000_000, 0, 0, 0), ComponentShares(1_200_000_000, 0, 0, 0)

    chart = power_stack("p", "Power", [_point(0, shares), _point(1, twice, 120.0), _point(2, shares)], HOUR)

    assert list(chart.series[0].values) == [10, 10, 10, 10]


def test_a_node_whose_slot_ends_a_moment_after_the_bucket_is_still_there() -> None:
    one, two = ComponentShares(600_000_000, 0, 0, 0), ComponentShares(1_200_000_000, 0, 0, 0)

    chart = power_stack(
        "p", "Power", [_point(0, two, 120.0, 2), _point(1, one, 60.0, 1), _point(2, two, 120.0, 2)], HOUR
    )

    assert list(chart.series[0].values) == [20, 20, 20, 20]


def test_a_bucket_without_slots_is_a_gap_and_not_zero() -> None:
    shares = ComponentShares(600_000_000, 0, 0, 0)

    chart = power_stack("p", "Power", [_point(0, shares), _point(1, None, 0.0), _point(2, shares)], HOUR)

    assert list(chart.series[0].values) == [10, 10, None, 10]
    assert chart.totals() == [10, 10, None, 10]


def test_no_points_give_an_empty_chart() -> None:
    chart = power_stack("p", "Power", [], HOUR)

    assert chart.times == []
    assert json.loads(chart.data())["series"] == []


def test_data_cannot_leave_its_script_element() -> None:
    series = PageSeries("</script><script>alert(1)</script>", "cpu", [1.0])

    text = PageChart("c", "C", "W", "line", [0.0], [series], HOUR).data()

    assert "</script" not in text
    assert json.loads(text)["series"][0]["label"] == "</script><script>alert(1)</script>"


def test_the_table_holds_at_most_24_rows_newest_first() -> None:
    times = [START.timestamp() + 10 * at for at in range(361)]
    chart = PageChart("c", "C", "W", "line", times, [PageSeries("x", "cpu", [float(at) for at in range(361)])], HOUR)

    rows = chart.rows(UTC_ZONE)

    assert len(rows) == 23
    assert rows[0] == ("13:00:00", ["360"])


def _chart(unit: str, *columns: ChartColumn) -> Chart:
    return Chart("name", "Title", unit, 10.0, (10.0, 20.0), columns)


def test_bytes_are_shown_on_one_scale() -> None:
    gib = float(2**30)
    chart = series_chart(_chart("bytes", ChartColumn("used", {}, (gib, 3 * gib))), HOUR)

    assert chart.column().scale.unit == "GiB"
    assert chart.newest(chart.series[0]) == "3.00"
    assert json.loads(chart.data())["divisor"] == gib


def test_rates_keep_their_per_second() -> None:
    chart = series_chart(_chart("bytes per second", ChartColumn("read", {}, (2e6, 3e6))), HOUR)

    assert chart.column().scale.unit == "MiB/s"


def test_what_there_is_lies_as_a_line_over_what_was_used() -> None:
    used = ChartColumn("user", {"mode": "user"}, (3.0, 4.0))
    allocated = ChartColumn("allocated", {}, (8.0, 8.0))

    chart = series_chart(_chart("cores", used, allocated), HOUR, "stack")

    assert chart.kind == "stack+lines"
    assert chart.totals() == [3, 4]
    assert [series.dashed for series in chart.series] == [False, True]


def test_columns_without_a_value_are_left_out() -> None:
    chart = series_chart(_chart("watts", ChartColumn("a", {}, (None, None)), ChartColumn("b", {}, (None, 1.0))), HOUR)

    assert [series.label for series in chart.series] == ["b"]


@pytest.mark.parametrize(
    ("labels", "colour", "dashed"),
    [
        ({"component": "dram", "part": "idle"}, "dram", False),
        ({"source": "powercap", "domain": "cpu", "socket": "0"}, "cpu", False),
        ({"resource": "memory", "kind": "full"}, "dram", True),
        ({"socket": "0", "stat": "min"}, "accent", True),
        ({"sensor": "nvme"}, "accent", False),
    ],
)
def test_a_component_has_its_colour_everywhere(labels: dict[str, str], colour: str, dashed: bool) -> None:
    chart = series_chart(_chart("watts", ChartColumn("line", labels, (1.0, 2.0))), HOUR)

    assert (chart.series[0].colour, chart.series[0].dashed) == (colour, dashed)


def test_sockets_are_named_and_share_a_colour() -> None:
    columns = [
        ChartColumn(f"{socket} {stat}", {"socket": socket, "stat": stat}, (1.0, 2.0))
        for socket in ("0", "1")
        for stat in ("min", "mean")
    ]

    chart = series_chart(_chart("hertz", *columns), HOUR)

    assert chart.series[0].label == "socket 0 min"
    assert [series.colour for series in chart.series] == ["accent", "accent", "accent-light", "accent-light"]


def _modes(**values: float) -> Chart:
    return _chart("cores", *(ChartColumn(mode, {"mode": mode}, (None, value)) for mode, value in values.items()))


def test_cpu_modes_are_folded_into_what_matters_under_the_nodes_cpus() -> None:
    chart = fold_cpu_modes(_modes(user=1.0, nice=0.5, system=0.25, idle=2.0, irq=0.01, softirq=0.02, steal=0.0), 4)

    assert {column.label: column.values for column in chart.columns} == {
        "user": (None, 1.5),
        "system": (None, 0.25),
        "interrupts": (None, 0.03),
        "total": (4.0, 4.0),
    }


def test_without_a_known_number_of_cpus_there_is_no_line() -> None:
    assert [column.label for column in fold_cpu_modes(_modes(user=1.0), None).columns] == ["user"]


def test_a_layer_that_is_always_zero_is_left_out() -> None:
    columns = [ChartColumn("cpu idle", {"component": "cpu", "part": "idle"}, (0.0, None))]
    columns.append(ChartColumn("cpu dynamic", {"component": "cpu", "part": "dynamic"}, (0.0, 1.0)))

    chart = series_chart(_chart("watts", *columns), HOUR, "stack")

    assert [series.label for series in chart.series] == ["cpu dynamic"]
    assert chart.stepped
