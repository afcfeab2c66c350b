"""Whatever a store answers: series, or an error of ours."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import Selector
from kwhere.transport.http import Answer, HttpClient

START = datetime(2026, 11, 30, tzinfo=UTC)
SPAN = Span(START, START + timedelta(hours=1))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
moments = st.integers(0, 3599).map(lambda second: START.timestamp() + second)
number_text = st.floats().map(str) | st.text(max_size=5)
samples = st.lists(st.tuples(moments | st.floats() | anything, number_text | anything) | anything, max_size=4)
series = st.fixed_dictionaries(
    {"metric": st.dictionaries(st.text(max_size=5), scalars, max_size=3) | anything}, optional={"values": samples}
)
matrices = st.lists(series | anything, max_size=3).map(
    lambda result: {"status": "success", "data": {"resultType": "matrix", "result": result}}
)


class Says:
    """A client to which every question has one answer."""

    def __init__(self, document: object) -> None:
        self.answer = Answer(200, {}, json.dumps(document).encode(), 0.0)

    def post(self, path: str, **more: Any) -> Answer:
        return self.answer

    def get(
        self, path: str, params: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self.answer

    def close(self) -> None:
        pass


def store_that_says(document: object) -> PrometheusSeriesStore:
    return PrometheusSeriesStore(PrometheusStoreSettings(url="http://127.0.0.1:1"), cast("HttpClient", Says(document)))


@given(matrices | anything)
def test_any_answer_is_series_or_an_error(document: object) -> None:
    try:
        found = store_that_says(document).select(Selector("m", {"cluster": "c"}), SPAN, 60.0)
    except (SourceError, Unavailable):
        return
    for one in found:
        assert list(one.times) == sorted(one.times)
        assert all(isinstance(value, str) for value in one.labels.values())
        assert all(START.timestamp() <= time < SPAN.end.timestamp() for time in one.times)


@given(
    matrices
    | anything
    | st.fixed_dictionaries({"data": st.dictionaries(st.sampled_from(["storageRetention", "store"]), anything)})
)
def test_any_status_page_is_an_age_or_an_error(document: object) -> None:
    try:
        kept = store_that_says(document).kept("c", START)
    except (SourceError, Unavailable):
        return
    assert kept is None or kept.since.tzinfo is not None
