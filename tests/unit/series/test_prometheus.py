"""How a Prometheus-compatible store is asked, and what is made of bad answers; a real one is in the contract suite."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from pydantic import ValidationError

from kwhere.core.errors import ConfigError, SourceError, TooMuch, Unavailable
from kwhere.core.timespan import Span
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import PrometheusStoreSettings, SeriesSettings
from kwhere.series.store import Selector

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Answering:
    """A server that gives one answer and remembers what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b""
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.most_samples: int | None = None
        """A question of more is refused, as a real server does."""
        self.refusal = "query processing would load too many samples into memory in query execution"

    def refuses(self, path: str, form: dict[str, str]) -> bool:
        if self.most_samples is None:
            return False
        if path.endswith("query_range"):
            return (float(form["end"]) - float(form["start"])) / float(form["step"]) + 1 > self.most_samples
        return int(form["query"].rpartition("[")[2].removesuffix("ms]")) / 1000 / 10 > self.most_samples

    def points(self, form: dict[str, str]) -> None:
        """Answer with the time itself at each point."""
        start, end, step = (int(form[name]) for name in ("start", "end", "step"))
        self.matrix({"metric": {"a": "1"}, "values": [[t, str(t)] for t in range(start, end + 1, step)]})

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
            answering.headers.append({name.lower(): value for name, value in self.headers.items()})
            given = answering.asked[-1][1]
            status = answering.status
            if answering.refuses(self.path, given):
                status = 422
                refused = {"status": "error", "errorType": "execution", "error": answering.refusal}
                answering.body = json.dumps(refused).encode()
            elif answering.most_samples is not None:
                answering.points(given)
            self.send_response(status)
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
        (501, b"<html>Not implemented</html>", SourceError, "expected JSON, found status 501"),
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


def test_headers_of_a_tenant_go_with_each_question_and_secrets_come_from_files_case_ceems_203(
    server: Answering, tmp_path: Path
) -> None:
    server.matrix()
    (tmp_path / "key").write_text("s3cret\n")
    settings = PrometheusStoreSettings(
        url=server.url, headers={"X-Scope-OrgID": "cfd"}, header_files={"X-Api-Key": tmp_path / "key"}
    )

    with closing(PrometheusSeriesStore(settings)) as store:
        store.select(Selector("m", {}), span(0, 60), 10)
        store.select(Selector("m", {}), span(0, 10**6), 3600)

    assert len(server.headers) == 2
    assert all((each["x-scope-orgid"], each["x-api-key"]) == ("cfd", "s3cret") for each in server.headers)


@pytest.mark.parametrize(
    ("url", "headers", "content", "words"),
    [
        ("http://prom.example", {}, "s3cret", "https, or to loopback only"),
        ("https://prom.example", {"Authorization": "Basic YTpi"}, "s3cret", "header_files.Authorization"),
        ("https://prom.example", {"X-Auth-Token": "YTpi"}, "s3cret", "header_files.X-Auth-Token"),
        ("https://prom.example", {"X-Tenant": "a", "x-tenant": "b"}, "s3cret", "each name once"),
        ("https://prom.example", {"X-Scope-OrgID": "a\nb"}, "s3cret", "printable ASCII"),
        ("https://prom.example", {}, "", "expected a value"),
        ("https://prom.example", {}, "schlüssel", "header_files.X-Api-Key"),
        ("https://prom.example", {}, None, "header_files.X-Api-Key"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_at_start_and_not_its_value(
    tmp_path: Path, url: str, headers: dict[str, str], content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content, encoding="utf-8")
    settings = PrometheusStoreSettings(url=url, headers=headers, header_files={"X-Api-Key": tmp_path / "key"})

    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        PrometheusSeriesStore(settings)

    assert "s3cret" not in str(raised.value)
    assert "YTpi" not in str(raised.value)


def test_a_store_of_one_cluster_needs_no_label_for_it_case_ceems_203(server: Answering) -> None:
    """A server's external labels are not in its own answers."""
    server.matrix({"metric": {"node": "n1"}, "values": [[1, "5"]]})
    settings = PrometheusStoreSettings(url=server.url, cluster_label="")

    with closing(PrometheusSeriesStore(settings)) as store:
        (series,) = store.select(Selector("m", {"cluster": "alpha", "node": "n1"}), span(0, 60), 10)

    assert server.asked[0][1]["query"].startswith('m{node="n1"}[')
    assert series.labels == {"cluster": "alpha", "node": "n1"}


def test_hidden_labels_never_leave_the_store_case_ceems_303(server: Answering) -> None:
    """Whoever asks: the proxy that filters answers for Grafana is the gateway's part, not this one's."""
    labels = {"node": "n1", "instance": "10.0.0.7:9810", "job": "agents", "hostname": "n1.internal", "mode": "user"}
    server.matrix({"metric": labels, "values": [[1, "5"]]})
    hidden = ("instance", "job", "hostname")
    settings = PrometheusStoreSettings(url=server.url, hidden_labels=hidden)

    with closing(PrometheusSeriesStore(settings)) as store:
        (series,) = store.select(Selector("m", {"node": "n1"}), span(0, 60), 10)

    assert series.labels == {"node": "n1", "mode": "user"}


def test_a_node_that_two_servers_scrape_is_counted_once(server: Answering, store: PrometheusSeriesStore) -> None:
    server.matrix(
        {"metric": {"node": "n1", "prometheus_replica": "a"}, "values": [[t, str(t)] for t in (10, 20, 30, 40)]},
        {"metric": {"node": "n1", "prometheus_replica": "b"}, "values": [[t, str(t)] for t in (12, 22)]},
    )

    (series,) = store.select(Selector("m", {}), span(0, 60), 5)

    assert (series.labels, series.times) == ({"node": "n1"}, (10, 20, 30, 40))


def test_a_stores_own_label_of_our_name_does_not_pass_for_ours(server: Answering) -> None:
    server.matrix({"metric": {"k8s_cluster": "alpha", "cluster": "rack-7", "node": "n1"}, "values": [[1, "5"]]})
    settings = PrometheusStoreSettings(url=server.url, cluster_label="k8s_cluster")

    with closing(PrometheusSeriesStore(settings)) as store:
        (series,) = store.select(Selector("m", {"cluster": "alpha"}), span(0, 60), 10)

    assert series.labels == {"cluster": "alpha", "node": "n1"}


def test_labels_of_any_letters_are_quoted_case_ceems_523(server: Answering) -> None:
    server.matrix({"metric": {"k8s.cluster": "alpha", "host.name": "n1"}, "values": [[1, "5"]]})
    settings = PrometheusStoreSettings(url=server.url, cluster_label="k8s.cluster", node_label="host.name")

    with closing(PrometheusSeriesStore(settings)) as store:
        (series,) = store.select(Selector("m", {"cluster": "alpha", "node": "`n1`"}), span(0, 60), 10)

    assert server.asked[0][1]["query"].startswith('m{"k8s.cluster"="alpha","host.name"="`n1`"}[')
    assert series.labels == {"cluster": "alpha", "node": "n1"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden_labels": ["unit"]}, "'unit' tells whose"),
        ({"hidden_labels": ["node"]}, "'node' tells whose"),
        ({"hidden_labels": ["mig", "instance"]}, "'mig' tells whose"),
        ({"cluster_label": "node"}, "another label than node_label"),
        ({"node_label": ""}, "node_label"),
        ({"node_label": "a\nb"}, "node_label"),
        ({"headers": {"a b": "c"}}, "headers"),
        ({"headers": {"a\r\nb": "c"}}, "headers"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        PrometheusStoreSettings.model_validate({"url": "http://127.0.0.1:1", **settings})


def test_a_common_store_must_tell_clusters_apart() -> None:
    with pytest.raises(ValidationError, match=r"prometheus\.cluster_label"):
        SeriesSettings.model_validate({"prometheus": {"url": "http://127.0.0.1:1", "cluster_label": ""}})


def test_instance_may_be_the_label_of_nodes(server: Answering) -> None:
    server.matrix({"metric": {"instance": "n1", "job": "agents"}, "values": [[1, "5"]]})

    with closing(PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, node_label="instance"))) as store:
        (series,) = store.select(Selector("m", {"node": "n1"}), span(0, 60), 10)

    assert series.labels == {"node": "n1"}


@pytest.mark.parametrize(
    "refusal",
    [
        "query processing would load too many samples into memory in query execution",
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)",
        "cannot select more than -search.maxSamplesPerQuery=1000000000 samples; possible solutions: increase it",
        "expanded matching posting: exceeded series limit: limit 1000 violated (got 1001)",
        "the query hit the max number of series limit (limit: 100000 series)",
    ],
)
def test_what_is_too_much_at_once_is_asked_for_in_pieces_case_ceems_277(server: Answering, refusal: str) -> None:
    server.most_samples, server.refusal = 30, refusal

    with closing(PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=10))) as store:
        (series,) = store.select(Selector("m", {}), span(0, 6000), 60)

    assert series.times == tuple(range(60, 6001, 60))
    assert [path.rpartition("/")[2] for path, _ in server.asked][:2] == ["query", "query_range"]
    assert len(server.asked) <= 9


def test_what_is_too_much_however_little_is_asked_is_told(server: Answering) -> None:
    server.most_samples = 2

    settings = PrometheusStoreSettings(url=server.url, scrape_seconds=10)
    with closing(PrometheusSeriesStore(settings)) as store, pytest.raises(TooMuch, match="too many samples"):
        store.select(Selector("m", {}), span(0, 60_000), 60)

    assert len(server.asked) < 20


def test_an_error_of_another_kind_is_not_asked_again(server: Answering, store: PrometheusSeriesStore) -> None:
    server.status = 422
    server.body = b'{"status":"error","errorType":"execution","error":"many-to-many matching not allowed"}'

    with pytest.raises(SourceError, match="many-to-many"):
        store.select(Selector("m", {}), span(0, 60), 10)

    assert len(server.asked) == 1


@pytest.mark.parametrize("suffix", [":9810", ".alpha.example:9810"])
def test_instance_with_its_port_names_the_node_too(server: Answering, suffix: str) -> None:
    server.matrix({"metric": {"instance": f"n1{suffix}", "job": "agents"}, "values": [[1, "5"]]})
    settings = PrometheusStoreSettings(url=server.url, node_label="instance", node_suffix=suffix)

    with closing(PrometheusSeriesStore(settings)) as store:
        (series,) = store.select(Selector("m", {"node": "n1"}), span(0, 60), 10)
        store.select(Selector("m", {"cluster": "c"}), span(0, 60), 10)

    assert server.asked[0][1]["query"].startswith(f'm{{instance="n1{suffix}"}}[')
    assert server.asked[1][1]["query"].startswith('m{cluster="c"}[')
    assert series.labels == {"node": "n1"}


def test_a_thousand_nodes_are_few_questions_case_ceems_277(server: Answering) -> None:
    server.matrix()
    nodes = tuple(f"n{number:04}.a" for number in range(1000))
    settings = PrometheusStoreSettings(url=server.url, node_label="instance", node_suffix=":9810")

    with closing(PrometheusSeriesStore(settings)) as store:
        store.select(Selector("m", {"cluster": "c"}, nodes), span(0, 60), 10)

    assert len(server.asked) == 16
    assert server.asked[0][1]["query"].startswith('m{cluster="c",instance=~"n0000\\\\.a:9810|n0001\\\\.a:9810|')
