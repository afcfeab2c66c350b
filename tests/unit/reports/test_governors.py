"""Governors of a unit: how many questions they cost."""

from collections.abc import Sequence
from datetime import timedelta

from tests.fake_account import FakeAccount, FixedClock
from tests.fake_series import FakeSeries
from tests.fake_units import NOW

from kwhere.core.timespan import Span
from kwhere.reports.node_charts import governors
from kwhere.reports.sources import Sources
from kwhere.series.store import RawSeries, Selector
from kwhere.web.pages.unit import governor_note


def test_a_unit_on_thousands_of_nodes_costs_few_questions_case_ceems_262() -> None:
    asked: list[int] = []

    class Counting(FakeSeries):
        def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
            asked.append(len(selector.nodes))
            return FakeSeries().select(selector, span, step_seconds)

    sources = Sources(account=FakeAccount(), clock=FixedClock(), series=Counting())
    nodes = [f"n{number:04}" for number in range(2000)]

    spans = governors(sources, "local", nodes, Span(NOW - timedelta(hours=1), NOW), 60.0)

    assert asked == [16]
    assert governor_note(spans, len(nodes)) == "governor performance on 16 of 2000 nodes"
    assert governor_note(spans[:2]) == "governor performance"
