"""The server's own metrics and faults: what a scraper and /health see, also when the disk is full."""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from tests.account_site import T0, Site, fixed, keep, minutes, worked_case
from tests.asgi_client import AsgiClient
from tests.databases import sqlite_engine
from tests.journals import HandJournal

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit
from kwhere.core.metrics import Sample
from kwhere.core.timespan import Span
from kwhere.database.choices import write_choice
from kwhere.database.engine import writing
from kwhere.database.settings import SiteSettings
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.memory import MemoryFile
from kwhere.emission_factors.provider import Basis, Factor, Quality
from kwhere.exposition.text import Format
from kwhere.reports.sources import Sources
from kwhere.resource_managers.kubernetes_kubeflow import Kubeflow
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server import metrics as module
from kwhere.server.intake import Intake
from kwhere.server.metrics import ServerMetrics, ServerWork, free_bytes, metrics_endpoint, server_faults
from kwhere.server.passes import PassRunner, Turn
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient

TOKEN = "correct-horse-battery"


class Away:
    """A provider whose service is away."""

    name = "live"
    refresh_seconds = 300.0

    def factors(self, zone: str, span: Span) -> list[Factor]:
        raise Unavailable("network", "live: the service is away")


class Once:
    """A pass that does what it is given."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self._work = work

    def is_due(self) -> bool:
        return True

    def run(self, turn: Turn) -> None:
        self._work()


class Watched:
    """A server's parts that a test lets work."""

    def __init__(self, engine: Engine, tmp_path: Path, *passes: Once) -> None:
        self.site = Site(engine, SiteSettings(zone="FR"))
        self.runner = PassRunner(engine, self.site.clock, passes)
        self.intake = Intake(
            engine, self.site.booker, self.site.clock, ServerSettings(), lambda: self.targets, self._connect
        )
        self.targets: list[Target] = []
        self.provider = CachedProvider(
            Away(), Basis.AVERAGE, MemoryFile(tmp_path / "live.json", "live"), self.site.clock
        )
        self.work = ServerWork(
            factors=self.site.reader.emission_factors,
            health=self.site.reader.health,
            pue_now=lambda: 1.25,
            passes=self.runner,
            intake=self.intake,
            providers=[self.provider],
            clock=self.site.clock,
            version="9.9",
            database_file=tmp_path / "account.sqlite",
        )

    def _connect(self, target: Target) -> HttpClient:
        raise Unavailable("network", f"{target.url}: connection refused")

    def samples(self) -> dict[tuple[str, str], float]:
        page = ServerMetrics(self.work).page(Format.TEXT).decode()
        return {
            (sample.name, ",".join(sample.labels.values())): sample.value
            for family in parse_text(page)
            for sample in family.samples
        }

    def faults(self) -> list[str]:
        return server_faults(self.runner, self.intake, None)


def _write_much(engine: Engine) -> None:
    with writing(engine).begin() as connection:
        write_choice(connection, "much", "x" * 1_000_000, 0, "test")


def _fail() -> None:
    raise SourceError("zone FR: the service is away")


@pytest.fixture
def watched(engine: Engine, tmp_path: Path) -> Watched:
    return Watched(engine, tmp_path, Once("factors", _fail), Once("rollup", lambda: None))


def test_both_bases_of_a_zone_are_there_with_their_time(watched: Watched) -> None:
    keep(watched.site, fixed(56.0, minutes(-60, 60), published_at=T0 - timedelta(minutes=5), quality=Quality.MEASURED))
    keep(watched.site, fixed(410.5, minutes(-5, 5), provider="watttime", basis=Basis.MARGINAL), reporting=False)

    found = watched.samples()

    average = "fixed,FR,average,lifecycle,production,measured"
    assert found["kwhere_emission_factor_grams_per_kwh", average] == 56.0
    assert found["kwhere_emission_factor_timestamp_seconds", average] == T0.timestamp() - 300
    assert found["kwhere_emission_factor_since_timestamp_seconds", average] == T0.timestamp() - 3600
    marginal = "watttime,FR,marginal,lifecycle,production,static"
    assert found["kwhere_emission_factor_grams_per_kwh", marginal] == 410.5
    assert found["kwhere_site_pue_ratio", ""] == 1.25


def test_questions_that_failed_are_counted(watched: Watched) -> None:
    with pytest.raises(Unavailable):
        watched.provider.factors("FR", minutes(0, 60))

    assert watched.samples()["kwhere_emission_factor_refresh_errors_total", "live"] == 1


def test_passes_and_pulls_are_counted(watched: Watched) -> None:
    watched.site.take(worked_case(HandJournal()))
    watched.targets = [Target("c1", "http://n9.c1:9810")]
    watched.runner.run_once()
    watched.intake.pull_all()

    found = watched.samples()

    assert found["kwhere_server_leads", ""] == 1
    assert (found["kwhere_server_pass_up", "factors"], found["kwhere_server_pass_up", "rollup"]) == (0, 1)
    assert found["kwhere_server_pass_errors_total", "factors"] == 1
    assert found["kwhere_server_pass_runs_total", "rollup"] == 1
    assert ("kwhere_server_pass_success_timestamp_seconds", "factors") not in found
    assert (found["kwhere_server_pull_errors_total", ""], found["kwhere_server_targets_failing", ""]) == (1, 1)
    assert found["kwhere_nodes", "up"] == 1
    assert found["kwhere_server_rollup_lag_seconds", ""] > 0


def test_parsers_and_promtool_read_the_page(watched: Watched) -> None:
    keep(watched.site, fixed(56.0))
    watched.runner.run_once()
    metrics = ServerMetrics(watched.work)

    page = metrics.page(Format.OPENMETRICS_1).decode()
    names = {family.name for family in parse_openmetrics(page)}  # type: ignore[no-untyped-call]

    assert names == {spec.family for spec in module.SPECS} - {
        "kwhere_emission_factor_refresh_timestamp_seconds",
        "kwhere_nodes",
    }
    if shutil.which("promtool") is not None:
        text = metrics.page(Format.TEXT)
        outcome = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert (outcome.returncode, outcome.stderr) == (0, b"")


class Observed:
    """A manager that knows of one profile."""

    def __init__(self, cluster: str, name: str = "kubernetes") -> None:
        self.cluster, self.name = cluster, name

    def fetch_units(self, span: Span) -> Sequence[ManagerUnit]:
        return ()

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        return ()

    def samples(self, cluster: str) -> Iterable[Sample]:
        return Kubeflow({"team-a": "alice"}).samples(cluster)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("managers", "labels"),
    [
        ([Observed("k1")], ["team-a,alice"]),
        ([Observed("k1"), Observed("k2")], ["team-a,alice,k1", "team-a,alice,k2"]),
    ],
)
def test_what_managers_observed_is_told_by_cluster_where_there_are_several(
    watched: Watched, managers: list[Observed], labels: list[str]
) -> None:
    built = tuple(
        BuiltManager(one.name, ManagerSettings(manager=one.name, cluster=one.cluster), one) for one in managers
    )
    watched.work = replace(watched.work, managers=built)
    page = ServerMetrics(watched.work).page(Format.TEXT).decode()

    (family,) = [family for family in parse_text(page) if family.name == "kubeflow_profile_info"]

    assert [",".join(sample.labels.values()) for sample in family.samples] == labels


def test_it_stands_behind_the_door_of_the_other_faces(watched: Watched) -> None:
    sources = Sources(account=watched.site.reader, clock=watched.site.clock)
    app = build_app(sources, GuardRules(token=TOKEN, hosts=frozenset({"testserver"})))
    app.add_route("/metrics", metrics_endpoint(ServerMetrics(watched.work)))
    client = AsgiClient(app)

    refused = client.get("/metrics")
    page = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    openmetrics = client.get(
        "/metrics", headers={"authorization": f"Bearer {TOKEN}", "accept": "application/openmetrics-text"}
    )

    assert refused.status_code == 401
    assert page.headers["content-type"] == Format.TEXT.value
    assert 'kwhere_build_info{version="9.9"} 1' in page.text
    assert openmetrics.text.endswith("# EOF\n")


def test_health_names_what_fails(watched: Watched) -> None:
    watched.targets = [Target("c1", "http://n9.c1:9810")]
    watched.runner.run_once()
    watched.intake.pull_all()
    sources = Sources(account=watched.site.reader, clock=watched.site.clock, faults=watched.faults)
    client = AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))

    answer = client.get("/api/v1/health").json()

    assert answer["status"] == "degraded"
    assert answer["reasons"][0] == "pass factors fails: SourceError: zone FR: the service is away"
    assert answer["reasons"][1].startswith("1 targets cannot be pulled, such as ")
    assert answer["reasons"][1].endswith("connection refused")


def test_a_full_disk_is_a_fault_of_the_passes(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "full.sqlite")
    watched = Watched(engine, tmp_path, Once("rollup", lambda: _write_much(engine)))
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    engine.dispose()

    @event.listens_for(engine, "connect")
    def _bound(connection: DBAPIConnection, _: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count = {pages}")

    watched.runner.run_once()

    assert any("database or disk is full" in fault for fault in watched.faults())
    assert watched.samples()["kwhere_server_pass_up", "rollup"] == 0
    engine.dispose()


def test_little_room_is_a_fault_before_anything_fails(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.sqlite"
    assert server_faults(watched.runner, watched.intake, file) == []

    monkeypatch.setattr(module, "free_bytes", lambda _: 3 << 20)

    assert server_faults(watched.runner, watched.intake, file) == ["the disk of the database is full: 3 MiB are left"]
    assert free_bytes(tmp_path / "none" / "file") is None
    assert free_bytes(None) is None
