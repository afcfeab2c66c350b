"""Limits as stores tell them, and how far back a store goes by what its status pages say."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.retention import Kept, KeptBy, Limits, parse_duration, parse_limits
from kwhere.series.settings import PrometheusStoreSettings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "time", "has_size"),
    [
        ("15d", 15 * DAY, False),
        ("2w1d", 15 * DAY, False),
        ("50GiB", None, True),
        ("512MB", None, True),
        ("15d or 50GiB", 15 * DAY, True),
        ("1y2w3d4h5m6s7ms", timedelta(days=365 + 14 + 3, hours=4, minutes=5, seconds=6, milliseconds=7), False),
        ("15d or 0B", 15 * DAY, False),
        ("999999999y", timedelta(days=36500), False),
    ],
)
def test_limits_by_time_and_by_size_are_told_apart_case_ceems_177(
    text: str, time: timedelta | None, has_size: bool
) -> None:
    assert parse_limits(text) == Limits(time, has_size, text)


@pytest.mark.parametrize("text", ["", "0s", "0B", "0s or 0B"])
def test_no_limit_is_none(text: str) -> None:
    assert parse_limits(text) is None


@pytest.mark.parametrize("text", ["fifteen days", "15", "d", "1d1y", "-1d", "15 d", "١٥d", "GiB", "15d and 1GB"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="retention"):
        parse_limits(text)


@given(st.text(max_size=60))
def test_any_text_is_a_limit_or_refused(text: str) -> None:
    try:
        found = parse_limits(text)
    except SourceError:
        return
    assert found is None or found.time is None or timedelta(0) < found.time <= timedelta(days=36_500)


@given(st.integers(min_value=0, max_value=10**9 - 1))
def test_seconds_are_read_as_seconds(seconds: int) -> None:
    assert parse_duration(f"{seconds}s") == timedelta(seconds=seconds)


class Telling:
    """A store that has samples of agents in `spans`, UTC seconds, and tells what `pages` say."""

    def __init__(self) -> None:
        self.pages: dict[str, object] = {}
        self.spans: list[tuple[float, float]] = []
        self.statuses: dict[str, int] = {}
        self.longest: timedelta | None = None
        """A longer span is refused in one question, as Mimir does."""
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def points(self, form: Mapping[str, str]) -> list[float]:
        start, end, step = (float(form[name]) for name in ("start", "end", "step"))
        times = [start + at * step for at in range(int((end - start) / step) + 1)]
        # a sample counts for five minutes, as in Prometheus
        return [t for t in times if any(first <= t <= last + 300 for first, last in self.spans)]


@contextmanager
def telling_store(**settings: object) -> Iterator[tuple[Telling, PrometheusSeriesStore]]:
    telling = Telling()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _say(self, document: object, status: int = 200) -> None:
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(telling.statuses.get(self.path, status))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            telling.asked.append((self.path, {}))
            if self.path not in telling.pages:
                self._say(b"404 page not found", 404)
                return
            self._say(telling.pages[self.path])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            telling.asked.append((self.path, form))
            if (
                telling.longest is not None
                and float(form["end"]) - float(form["start"]) > telling.longest.total_seconds()
            ):
                refused = "the query time range exceeds the limit (query length: 87600h0m0s, limit: 768h0m0s)"
                self._say({"status": "error", "errorType": "bad_data", "error": refused}, 422)
                return
            values = [[time, "1"] for time in telling.points(form)]
            result = [{"metric": {}, "values": values}] if values else []
            self._say({"status": "success", "data": {"resultType": "matrix", "result": result}})

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://127.0.0.1:{listening.server_address[1]}"
    store = PrometheusSeriesStore(PrometheusStoreSettings.model_validate({"url": url, **settings}))
    try:
        yield telling, store
    finally:
        store.close()
        listening.shutdown()
        thread.join()
        listening.server_close()


def runtime(text: str) -> dict[str, object]:
    return {"status": "success", "data": {"storageRetention": text}}


def seconds(moment: datetime) -> float:
    return moment.timestamp()


def test_a_limit_by_time_is_taken_as_told_case_ceems_177() -> None:
    with telling_store() as (telling, store):
        telling.pages["/api/v1/status/runtimeinfo"] = runtime("15d")

        assert store.kept("c", NOW) == Kept(NOW - 15 * DAY, KeptBy.TIME, "15d")
        assert [path for path, _ in telling.asked] == ["/api/v1/status/runtimeinfo"]


def test_flags_speak_where_runtimeinfo_does_not_case_ceems_270() -> None:
    with telling_store() as (telling, store):
        flags = {
            "storage.tsdb.retention": "0s",
            "storage.tsdb.retention.time": "30d",
            "storage.tsdb.retention.size": "",
        }
        telling.pages["/api/v1/status/flags"] = {"status": "success", "data": flags}

        assert store.kept("c", NOW) == Kept(NOW - 30 * DAY, KeptBy.TIME, "30d")


def test_a_full_store_goes_as_far_back_as_its_oldest_sample_case_ceems_177() -> None:
    with telling_store() as (telling, store):
        telling.pages["/api/v1/status/runtimeinfo"] = runtime("15d or 50GiB")
        telling.spans = [(seconds(NOW - 4 * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert (kept.by, kept.limits) == (KeptBy.SIZE, "15d or 50GiB")
        assert abs(kept.since - (NOW - 4 * DAY)) <= timedelta(minutes=5)


def test_a_store_that_is_not_full_yet_is_limited_by_time() -> None:
    with telling_store() as (telling, store):
        telling.pages["/api/v1/status/runtimeinfo"] = runtime("15d or 50GiB")
        telling.spans = [(seconds(NOW - 16 * DAY), seconds(NOW))]

        assert store.kept("c", NOW) == Kept(NOW - 15 * DAY, KeptBy.TIME, "15d or 50GiB")


@pytest.mark.parametrize("days", [0.01, 0.5, 3, 20, 100, 400, 3000])
def test_without_a_flag_the_oldest_sample_is_found_case_ceems_270(days: float) -> None:
    with telling_store() as (telling, store):
        telling.spans = [(seconds(NOW - days * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert (kept.by, kept.limits) == (KeptBy.OLDEST, "")
        assert timedelta(0) <= kept.since - (NOW - days * DAY) <= timedelta(minutes=6)
        assert sum(path == "/api/v1/query_range" for path, _ in telling.asked) <= 8


@pytest.mark.parametrize("days", [0.5, 20, 100, 400])
def test_a_store_that_takes_short_questions_alone_is_asked_several_case_ceems_270(days: float) -> None:
    with telling_store() as (telling, store):
        telling.longest = 32 * DAY
        telling.spans = [(seconds(NOW - days * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert timedelta(0) <= kept.since - (NOW - days * DAY) <= timedelta(minutes=6)
        assert sum(path == "/api/v1/query_range" for path, _ in telling.asked) <= 14


@pytest.mark.parametrize("longest_days", [1, 30])
@pytest.mark.parametrize("days", [0.01, 33, 2049, 3640])
def test_however_short_questions_must_be_there_are_few(days: float, longest_days: int) -> None:
    with telling_store() as (telling, store):
        telling.longest = longest_days * DAY
        telling.spans = [(seconds(NOW - days * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert timedelta(0) <= kept.since - (NOW - days * DAY) <= timedelta(minutes=6)
        assert sum(path == "/api/v1/query_range" for path, _ in telling.asked) <= 24


def test_minutes_of_outage_where_a_short_question_begins_do_not_end_the_search() -> None:
    with telling_store() as (telling, store):
        telling.longest = DAY
        gap = timedelta(minutes=10)
        telling.spans = [
            (seconds(NOW - 40 * DAY), seconds(NOW - 3 * DAY - gap)),
            (seconds(NOW - 3 * DAY + gap), seconds(NOW)),
        ]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert abs(kept.since - (NOW - 40 * DAY)) <= timedelta(minutes=6)


def test_samples_in_bursts_do_not_make_for_many_questions() -> None:
    with telling_store() as (telling, store):
        bursts = [seconds(NOW - at * 15.2083 * DAY + DAY) for at in range(1, 200)]
        telling.spans = [*((at, at + 86400) for at in bursts), (seconds(NOW - DAY), seconds(NOW))]

        store.kept("c", NOW)

        assert sum(path == "/api/v1/query_range" for path, _ in telling.asked) <= 12


def test_an_outage_of_days_does_not_hide_what_is_older() -> None:
    with telling_store() as (telling, store):
        telling.spans = [
            (seconds(NOW - 100 * DAY), seconds(NOW - 50 * DAY)),
            (seconds(NOW - 45 * DAY), seconds(NOW)),
        ]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert abs(kept.since - (NOW - 100 * DAY)) <= timedelta(minutes=6)


def test_a_store_without_any_agent_is_not_known() -> None:
    with telling_store() as (_, store):
        assert store.kept("c", NOW) is None


def test_thanos_tells_the_oldest_block_of_its_stores() -> None:
    with telling_store() as (telling, store):
        oldest_ms = int(seconds(NOW - 200 * DAY)) * 1000
        stores = {"sidecar": [{"name": "a", "minTime": oldest_ms + 10**9}], "store": [{"minTime": oldest_ms}]}
        telling.pages["/api/v1/stores"] = {"status": "success", "data": stores}

        assert store.kept("c", NOW) == Kept(NOW - 200 * DAY, KeptBy.OLDEST, "")


@pytest.mark.parametrize(
    "page",
    [
        b"<html>Welcome</html>",
        b"[]",
        b"null",
        {"status": "success", "data": []},
        {"status": "success", "data": {"storageRetention": 15}},
        {"status": "success", "data": {"storageRetention": "for ever"}},
        {"status": "success"},
    ],
)
def test_a_status_page_that_says_nothing_leaves_the_oldest_sample(page: object) -> None:
    with telling_store() as (telling, store):
        telling.pages |= {f"/api/v1/{name}": page for name in ("status/runtimeinfo", "status/flags", "stores")}
        telling.spans = [(seconds(NOW - 2 * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert kept.by is KeptBy.OLDEST


def test_a_store_that_is_overloaded_is_asked_again_and_no_answer_is_made_up() -> None:
    with telling_store() as (telling, store):
        telling.pages["/api/v1/status/runtimeinfo"] = runtime("15d")
        telling.statuses["/api/v1/status/runtimeinfo"] = 503
        with pytest.raises(Unavailable, match="503"):
            store.kept("c", NOW)
        telling.statuses.clear()

        assert store.kept("c", NOW) == Kept(NOW - 15 * DAY, KeptBy.TIME, "15d")


def test_a_store_that_has_no_status_pages_is_not_overloaded() -> None:
    with telling_store() as (telling, store):
        paths = [f"/api/v1/{name}" for name in ("status/runtimeinfo", "status/flags", "stores")]
        telling.pages |= dict.fromkeys(paths, b"not implemented")
        telling.statuses |= dict.fromkeys(paths, 501)
        telling.spans = [(seconds(NOW - 2 * DAY), seconds(NOW))]

        kept = store.kept("c", NOW)

        assert kept is not None
        assert kept.by is KeptBy.OLDEST


def test_each_cluster_of_a_store_is_looked_for_by_its_own_label() -> None:
    with telling_store(cluster_label="k8s.cluster") as (telling, store):
        store.kept("a", NOW)

        query = next(form["query"] for path, form in telling.asked if path.endswith("query_range"))
        assert query == 'count(kwhere_build_info{"k8s.cluster"="a"})'
