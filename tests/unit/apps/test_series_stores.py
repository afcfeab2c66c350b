"""Which store of series a server reads, by its settings: one for all, one per cluster, its own for the rest."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from kwhere.apps.configuration import load
from kwhere.apps.series_stores import not_stored_elsewhere, open_series
from kwhere.apps.settings import Settings
from kwhere.cli.main import run_root
from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span
from kwhere.series.by_cluster import ClusterStores
from kwhere.series.charts import UnitRef, unit_chart
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.server.target import Target

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HOUR = Span(NOW - timedelta(hours=1), NOW)


@contextmanager
def answering(cpus: str) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Yield a store whose unit 42 has so many CPUs, and what it was asked, with the tenant."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked.append((form["query"][0], self.headers["X-Scope-OrgID"]))
            labels = {"manager": "slurm", "unit": "42", "run": "42@0", "node": "n1"}
            values = [[NOW.timestamp() - 10 * at, cpus] for at in range(1, 300)]
            result = [{"metric": labels, "values": values}] if "kwhere_unit_cpus" in form["query"][0] else []
            body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}", asked
    listening.shutdown()
    thread.join()
    listening.server_close()


def read(place: Path, text: str) -> Settings:
    (place / "kwhere.yaml").write_text(text)
    return load(Settings, place / "kwhere.yaml")


def test_a_units_curves_come_from_its_own_clusters_store_case_ceems_203(tmp_path: Path) -> None:
    """The same id lives on two clusters. Which of a user's queries go to which store is the gateway's part."""
    with answering("4") as (alpha, of_alpha), answering("8") as (beta, of_beta):
        settings = read(
            tmp_path,
            f"""
series:
  clusters:
    alpha: {{url: "{alpha}", cluster_label: "", headers: {{X-Scope-OrgID: tenant-a}}}}
    beta: {{url: "{beta}", cluster_label: ""}}
""",
        )
        with closing(open_series(settings, tmp_path, SystemClock())) as store:
            drawn = {
                cluster: unit_chart(store, UnitRef(cluster, "slurm", "42", (("n1", "42@0"),)), "cpu", HOUR, 60)
                for cluster in ("alpha", "beta", "gamma")
            }

    newest = {cluster: [column.values[-2] for column in chart.columns] for cluster, chart in drawn.items()}
    assert newest == {"alpha": [4.0], "beta": [8.0], "gamma": []}
    assert {tenant for _, tenant in of_alpha} == {"tenant-a"}
    assert {tenant for _, tenant in of_beta} == {None}


def test_without_one_of_its_own_a_clusters_series_are_in_the_embedded_store(tmp_path: Path) -> None:
    settings = read(tmp_path, "series: {clusters: {alpha: {url: 'http://127.0.0.1:1'}}}")
    targets = [Target("alpha", "http://a:9810"), Target("beta", "http://b:9810")]

    with closing(open_series(settings, tmp_path, SystemClock())) as store:
        assert isinstance(store, ClusterStores)
        assert isinstance(store.rest, EmbeddedSeriesStore)
        assert not isinstance(store.of("alpha"), EmbeddedSeriesStore)
    assert [target.cluster for target in not_stored_elsewhere(targets, settings)] == ["beta"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("prometheus: {url: 'ftp://prom.example'}", "series.prometheus.url"),
        ("clusters: {alpha: {url: 'http://u:p@prom.example'}}", "series.clusters.alpha.url"),
        (
            "clusters: {alpha: {url: 'https://prom.example', header_files: {X-Key: /nowhere/key}}}",
            "series.clusters.alpha.header_files.X-Key",
        ),
    ],
)
def test_an_entry_that_is_wrong_is_told_by_its_key(tmp_path: Path, text: str, key: str) -> None:
    settings = read(tmp_path, f"series:\n  {text}\n")

    with pytest.raises(ConfigError) as raised:
        open_series(settings, tmp_path, SystemClock())

    assert str(raised.value).startswith(key)
    with closing(open_series(Settings(), tmp_path, SystemClock())):  # nothing was left locked
        pass


def test_config_check_reads_what_an_entry_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text("series: {clusters: {a: {url: 'https://p', header_files: {X-Key: /nowhere/key}}}}\n")

    assert run_root(["config", "check", str(file)]) == 2
    assert "series.clusters.a.header_files.X-Key" in capsys.readouterr().err
