"""How a Prometheus-compatible store is asked, and what is made of bad answers; a real one is in the contract suite."""

import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import Selector

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Answering:
    """A server that gives one answer and remembers what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b""
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    def matrix(self, *result: object, **more: object) -> None:
        data = {"resultType": "matrix", "result": list(result)}
        self.body = json.dumps({"status": "success", "data": data, **more}).encode()


@pytest.fixture
def server() -> Iterator[Answering]:
    answering = Answering()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), keep_blank_values=True)
            answering.asked.append((self.path, {name: values[0] for name, values in form.items()}))
            self.send_response(answering.status)
            self.send_header("Content-Length", str(len(answering.body)))
            self.end_headers()
            self.wfile.write(answering.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    answering.url = f"http://127.0.0.1:{listening.server_address[1]}/prom"
    yield answering
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def store(server: Answering) -> Iterator[PrometheusSeriesStore]:
    store = PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=10, max_points=100))
    yield store
    store.close()


def span(start: float, end: float) -> Span:
    return Span(EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end))


def test_a_short_span_is_read_raw(server: Answering, store: PrometheusSeriesStore) -> None:
    server.matrix({"metric": {"__name__": "m", "a": "1"}, "values": [[999.999, "9"], [1000, "1"], [1005.5, "2"]]})

    (series,) = store.select(Selector("m", {"a": '1"'}), span(1000, 1060), 10)

    ((path, form),) = server.asked
    assert path == "/prom/api/v1/query"
    assert (form["query"], form["time"]) == ('m{a="1\\""}[60001ms]', "1060")
    assert (series.labels, series.times, series.values) == ({"a": "1"}, (1000, 1005.5), (1, 2))


@pytest.mark.parametrize("length", [59.75, 90_000.25])
def test_what_still_runs_is_asked_for_in_whole_seconds_case_users_55(
    server: Answering, store: PrometheusSeriesStore, length: float
) -> None:
    server.matrix({"metric": {}, "values": [[1000.5, "1"], [1059.9, "2"]]})

    (series,) = store.select(Selector("m", {}), span(1000.123, 1000.123 + length), 60.0)

    times = [form[name] for _, form in server.asked for name in ("time", "start", "end", "step") if name in form]
    assert times
    assert all(re.fullmatch(r"\d+", word) for word in times)
    assert 1059.9 not in series.times or length > 60


def test_a_long_span_is_read_in_steps_and_split_at_the_servers_limit(
    server: Answering, store: PrometheusSeriesStore
) -> None:
    server.matrix()

    store.select(Selector("m", {}), span(0, 100_000), 400)

    assert [(path, form["start"], form["end"], form["step"]) for path, form in server.asked] == [
        ("/prom/api/v1/query_range", "400", "40000", "400"),
        ("/prom/api/v1/query_range", "40400", "80000", "400"),
        ("/prom/api/v1/query_range", "80400", "100000", "400"),
    ]
    assert {form["lookback_delta"] for _, form in server.asked} == {"400000ms"}
    assert {form["partial_response"] for _, form in server.asked} == {"false"}


def test_a_nan_is_no_sample(server: Answering, store: PrometheusSeriesStore) -> None:
    server.matrix({"metric": {}, "values": [[1, "NaN"], [2, "+Inf"]]}, {"metric": {"a": "1"}, "values": [[1, "NaN"]]})

    (series,) = store.select(Selector("m", {}), span(0, 60), 1)

    assert series.values == (float("inf"),)


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (400, b'{"status":"error","errorType":"bad_data","error":"parse error"}', SourceError, "bad_data: parse error"),
        (422, b'{"status":"error","errorType":"execution","error":"too many"}', SourceError, "execution: too many"),
        (503, b'{"status":"error","errorType":"timeout","error":"slow"}', Unavailable, "timeout: slow"),
        (502, b"<html>Bad gateway</html>", Unavailable, "status 502"),
        (429, b"slow down", Unavailable, "status 429"),
        (401, b"who are you", Unavailable, "status 401"),
        (403, b'{"error":"no"}', Unavailable, "status 403"),
        (200, b"<html>Welcome</html>", SourceError, "expected JSON"),
        (200, b"[]", SourceError, "JSON object"),
        (200, b'{"status":"success"}', SourceError, "expected a matrix"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[]}}', SourceError, "expected a matrix"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[{}]}}', SourceError, "series of samples"),
        (
            200,
            b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["x",1]]}]}}',
            SourceError,
            "series of samples",
        ),
        (
            200,
            b'{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]}}',
            Unavailable,
            "only in part",
        ),
    ],
)
def test_a_bad_answer_is_a_clear_error(
    server: Answering, store: PrometheusSeriesStore, status: int, body: bytes, error: type[Exception], words: str
) -> None:
    server.status, server.body = status, body

    with pytest.raises(error, match=words):
        store.select(Selector("m", {}), span(0, 60), 10)
