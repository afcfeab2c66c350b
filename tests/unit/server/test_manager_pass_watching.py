"""The pass over a manager that pushes, and over one that tells its queue: through restarts, gaps and failures."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.account_site import Site
from tests.emission_services import HandClock
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.kubernetes_api import PODS, TOKEN, FakeKubernetes, kubernetes
from tests.kubernetes_objects import finished, pod
from tests.managed_site import T0, said

from kwhere.core.errors import Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit, Queue, WaitingUnit
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.engine import open_engine
from kwhere.database.maintenance import upgrade
from kwhere.database.manager_states import ManagerState, manager_state
from kwhere.database.settings import DatabaseSettings
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server.manager_pass import DEEP_SECONDS, ManagerPass
from kwhere.transport.settings import HttpClientSettings

LATER = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)


class Always:
    def goes_on(self) -> bool:
        return True


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{tmp_path}/d.sqlite"))
    upgrade(engine)
    return engine


class Cluster:
    """A cluster's API, a server's pass over it and their clock."""

    def __init__(self, engine: Engine, api: FakeKubernetes) -> None:
        self.engine = engine
        self.api = api
        self.api.longest_watch_seconds = 0.02
        self.clock = HandClock(LATER)
        self.manager: KubernetesManager | None = None
        self.start()

    def start(self) -> None:
        """Start the server, or start it anew: what it had in memory is gone."""
        self.stop()
        settings = KubernetesSettings(manager="kubernetes", cluster="k1", kubeflow=False)
        source = KubernetesApi(
            Access(self.api.url, HttpClientSettings(), TOKEN),
            self.clock,
            lambda seconds: self.clock.ahead(seconds=seconds),
        )
        self.manager = KubernetesManager(settings, source, self.clock)
        self.server_pass = ManagerPass(self.engine, BuiltManager("kubernetes", settings, self.manager), self.clock)

    def stop(self) -> None:
        if self.manager is not None:
            self.manager.close()

    def run(self, **later: float) -> None:
        self.clock.ahead(**later)
        self.server_pass.run(Always())

    def states(self) -> dict[str, tuple[str, datetime | None]]:
        with self.engine.connect() as connection:
            found = connection.execute(select(schema.units.c.name, schema.units.c.state, schema.units.c.ended_ns))
            return {
                name: (state, None if ended_ns is None else datetime.fromtimestamp(ended_ns / 1e9, UTC))
                for name, state, ended_ns in found
            }

    def waiting(self) -> set[str]:
        with self.engine.connect() as connection:
            return set(connection.execute(select(schema.waiting_units.c.name)).scalars())

    def state(self) -> ManagerState:
        return manager_state(self.engine, "k1", "kubernetes")

    def lists(self) -> int:
        return len([query for query in self.api.asks(PODS, limit="500") if "continue" not in query])


@pytest.fixture
def cluster(engine: Engine) -> Iterator[Cluster]:
    with kubernetes() as api:
        made = Cluster(engine, api)
        yield made
        made.stop()


def test_all_is_listed_once_and_then_heard(cluster: Cluster) -> None:
    cluster.api.put(PODS, pod("p"))
    cluster.api.put(PODS, pod("waits", node="", status={"phase": "Pending", "startTime": None}))
    cluster.run()
    cluster.api.put(PODS, pod("q"))
    cluster.api.put(PODS, pod("waits"))
    cluster.api.put(PODS, pod("p", status=finished("Succeeded", "2026-11-29T12:31:00Z")))
    assert cluster.waiting() == {"waits"}

    cluster.run(minutes=2)

    minute = datetime(2026, 11, 29, 12, 31, tzinfo=UTC)
    assert cluster.states() == {"p": ("succeeded", minute), "q": ("running", None), "waits": ("running", None)}
    assert cluster.waiting() == set()
    assert cluster.lists() == 1


def test_what_was_deleted_while_the_server_was_down_does_not_stay_running(cluster: Cluster) -> None:
    cluster.api.put(PODS, pod("stays"))
    cluster.api.put(PODS, pod("goes"))
    cluster.run()
    cluster.run(minutes=5)
    heard_at = cluster.clock.now
    cluster.api.delete(PODS, "goes", "team-a")
    cluster.api.put(PODS, pod("new"))
    cluster.api.forget()
    cluster.start()

    cluster.run(hours=3)

    # Nobody saw it end: it lived when the API was heard last.
    assert cluster.states() == {"stays": ("running", None), "new": ("running", None), "goes": ("vanished", heard_at)}


def test_a_restarted_server_hears_what_it_missed_where_the_api_still_knows(cluster: Cluster) -> None:
    cluster.api.put(PODS, pod("goes"))
    cluster.run()
    cluster.api.put(PODS, pod("goes", status=finished("Failed", "2026-11-29T12:31:00Z")))
    cluster.api.delete(PODS, "goes", "team-a")
    cluster.start()

    cluster.run(hours=1)

    assert cluster.states() == {"goes": ("failed", datetime(2026, 11, 29, 12, 31, tzinfo=UTC))}


@pytest.mark.parametrize("by_event", [False, True])
def test_a_forgotten_past_is_listed_anew(cluster: Cluster, by_event: bool) -> None:
    cluster.api.put(PODS, pod("goes"))
    cluster.run()
    heard_at = cluster.clock.now
    cluster.api.delete(PODS, "goes", "team-a")
    cluster.api.forget()
    cluster.api.faults.error_event = by_event

    cluster.run(minutes=1)

    assert cluster.states() == {"goes": ("vanished", heard_at)}


def test_a_look_that_failed_is_heard_again(cluster: Cluster) -> None:
    cluster.api.put(PODS, pod("p"))
    cluster.run()
    before = cluster.state()
    cluster.api.put(PODS, pod("q"))
    cluster.api.faults.status = 503
    with pytest.raises(Unavailable):
        cluster.run(minutes=1)
    assert cluster.state().cursor == before.cursor
    cluster.api.faults.status = 0

    cluster.run(minutes=1)

    assert set(cluster.states()) == {"p", "q"}
    assert cluster.state().good_until_ns == cluster.clock.utc_ns()


def test_a_pod_that_cannot_be_read_now_is_not_gone(cluster: Cluster) -> None:
    cluster.api.put(PODS, pod("p"))
    cluster.run()
    odd = pod("p")
    odd["status"]["startTime"] = None
    cluster.api.put(PODS, odd)
    cluster.api.forget()
    cluster.start()

    cluster.run(minutes=1)

    assert cluster.states() == {"p": ("running", None)}


def test_runs_that_wait_are_a_reason_to_list_anew(cluster: Cluster) -> None:
    cluster.run()
    journal = HandJournal(node="n1", machine_id="m-n1")
    strange = key("strange", manager="kubernetes", start_s=int(LATER.timestamp()))
    journal.append([unit(strange, figures(1, 0)), system(figures(0, 0))])
    Site(cluster.engine).take(journal, "k1")
    cluster.run(seconds=DEEP_SECONDS)

    assert cluster.lists() == 2


class Told:
    """A manager that says what a test gives it."""

    name = "slurm"
    cluster = "c1"

    def __init__(self) -> None:
        self.units: list[ManagerUnit] = []
        self.queue = Queue(living=frozenset())
        self.queue_fault: str | None = None

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        return iter([u for u in self.units if u.ended_at is None or u.ended_at >= span.start])

    def fetch_queue(self) -> Queue:
        if self.queue_fault is not None:
            raise Unavailable("refused", self.queue_fault)
        return self.queue

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> list[ManagerNode]:
        return []

    def close(self) -> None:
        pass


class Polled:
    """A server's pass over a manager that is asked."""

    def __init__(self, engine: Engine) -> None:
        self.site = Site(engine)
        self.told = Told()
        settings = ManagerSettings(manager="slurm", cluster="c1", backfill_days=1)
        self.server_pass = ManagerPass(engine, BuiltManager("slurm", settings, self.told), self.site.clock)

    def run(self, now_s: int) -> None:
        self.site.clock.now_ns = T0_NS + now_s * SECOND_NS
        self.server_pass.run(Always())

    def state_of(self, unit_id: str) -> tuple[str, float | None]:
        record = self.site.reader.unit("c1", "slurm", unit_id)
        return record.state, None if record.ended_at is None else (record.ended_at - T0) / timedelta(seconds=1)


@pytest.fixture
def polled(engine: Engine) -> Polled:
    return Polled(engine)


def test_a_job_that_was_purged_ends_when_it_was_heard_of_last(polled: Polled) -> None:
    polled.told.units, polled.told.queue = [said("7")], Queue(living=frozenset({"7"}))
    polled.run(600)
    polled.told.units, polled.told.queue = [], Queue(living=frozenset())

    polled.run(1200)

    assert polled.state_of("7") == ("vanished", 600)


def test_a_runaway_that_the_accounting_calls_running_has_ended(polled: Polled) -> None:
    polled.told.units, polled.told.queue = [said("7"), said("8")], Queue(living=frozenset({"7", "8"}))
    polled.run(600)
    polled.told.queue = Queue(living=frozenset({"8"}))

    for now_s in (1200, 1800):
        polled.run(now_s)

    assert polled.state_of("7") == ("vanished", 600)
    assert polled.state_of("8") == ("running", None)


def test_a_controller_that_is_away_keeps_nobody_from_reading_the_accounting(polled: Polled) -> None:
    polled.told.queue = Queue((WaitingUnit("c1", "slurm", "9", "pending"),), frozenset({"7"}))
    polled.told.units = [said("7")]
    polled.run(600)
    polled.told.queue_fault = "slurmctld is away"
    polled.told.units = [said("7"), said("8", 100, 200)]

    with pytest.raises(Unavailable, match="slurmctld is away"):
        polled.run(1200)

    assert polled.state_of("8") == ("completed", 200)
    assert polled.state_of("7") == ("running", None)
    with polled.site.engine.connect() as connection:
        assert connection.execute(select(schema.waiting_units.c.unit)).scalars().all() == ["9"]


def test_what_started_after_the_queue_was_asked_is_not_lost(polled: Polled) -> None:
    polled.told.units = [said("7", 599)]

    polled.run(600)

    assert polled.state_of("7") == ("running", None)
