"""Active users by how they were active, over SQLite and PostgreSQL."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from tests.account_site import SITE, J, Site
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.managed_site import said, turn_of

from kwhere.core.clock import SystemClock
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit
from kwhere.core.metrics import Sample
from kwhere.core.timespan import Span
from kwhere.database.active_users import users_at_work, users_who_began
from kwhere.database.claims import claim_waiting
from kwhere.database.managed_units import write_units
from kwhere.resource_managers.kubernetes_kubeflow import Kubeflow
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server.active_users import EVERY_SECONDS, ActiveUsersPass
from kwhere.server.passes import PassRunner

DAY_NS = 86_400 * SECOND_NS
KUBERNETES = "kubernetes"


@pytest.fixture
def site(engine: Engine) -> Site:
    """An hour in which alice used a CPU, bob hardly any, carol a GPU alone, dave as much on SLURM."""
    found = Site(engine, SITE.model_copy(update={"zone": "FR"}))
    journal = HandJournal(node="n1", machine_id="m-n1")
    entries = [
        unit(key("a", KUBERNETES), figures(J, 0, cpu_ns=200 * SECOND_NS)),
        unit(key("b", KUBERNETES), figures(J, 0, cpu_ns=100 * SECOND_NS)),
        unit(key("c", KUBERNETES), figures(J, 0, cpu_ns=SECOND_NS, gpu_busy_ns=SECOND_NS)),
        unit(key("d"), figures(J, 0, cpu_ns=300 * SECOND_NS), user="dave"),
        system(figures(0, 0)),
    ]
    journal.append(entries)
    found.take(journal)
    kinds = {"a": "PyTorchJob", "b": "Workflow", "c": "Notebook", "e": "Workflow_x"}
    users = {"a": "alice", "b": "bob", "c": "carol", "e": "erin"}
    units = [
        said(name, -5, manager=KUBERNETES, user=users[name], tags={"kube_owner_kind": kind, "kube_pod": "p"})
        for name, kind in kinds.items()
    ]
    turn = turn_of(engine, T0_NS, KUBERNETES)
    write_units(engine, turn, units)
    claim_waiting(engine, turn, lambda: True)
    found.clock.now_ns += DAY_NS
    found.roll()
    return found


def test_a_user_is_at_work_by_five_per_cent_of_a_cpu_or_by_a_gpu(site: Site) -> None:
    with site.engine.connect() as connection:
        assert users_at_work(connection, "c1", KUBERNETES, T0_NS - DAY_NS) == 2  # alice and carol
        assert users_at_work(connection, "c1", KUBERNETES, T0_NS + DAY_NS // 2) == 0
        assert users_at_work(connection, "c2", KUBERNETES, T0_NS - DAY_NS) == 0
        assert users_at_work(connection, "c1", "slurm", T0_NS - DAY_NS) == 1


def test_a_user_began_something_by_who_made_the_pod(site: Site) -> None:
    def began(since_ns: int, *kinds: str) -> int:
        with site.engine.connect() as connection:
            return users_who_began(connection, "c1", KUBERNETES, since_ns, "kube_owner_kind", kinds)

    assert began(T0_NS - DAY_NS, "Workflow") == 1
    assert began(T0_NS - DAY_NS, "PyTorchJob", "Workflow") == 2
    assert began(T0_NS, "Workflow") == 0  # it began before
    assert began(T0_NS - DAY_NS, "%") == 0


class Observed:
    """A cluster's manager that does or does not know of Kubeflow."""

    name = KUBERNETES
    cluster = "c1"

    def __init__(self) -> None:
        self.kubeflow = Kubeflow()

    def fetch_units(self, span: Span) -> tuple[ManagerUnit, ...]:
        return ()

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> tuple[ManagerNode, ...]:
        return ()

    def samples(self, cluster: str) -> Iterator[Sample]:
        return self.kubeflow.samples(cluster)

    def close(self) -> None: ...


def test_the_pass_counts_each_way_where_there_is_kubeflow(site: Site) -> None:
    manager = Observed()
    settings = ManagerSettings(manager=KUBERNETES, cluster="c1")
    counting = ActiveUsersPass(site.engine, [BuiltManager(KUBERNETES, settings, manager)], site.clock)
    runner = PassRunner(site.engine, site.clock, [counting])

    runner.run_once()
    without = list(runner.samples())
    manager.kubeflow = Kubeflow({"team-a": "alice"})
    site.clock.now_ns += EVERY_SECONDS * SECOND_NS
    runner.run_once()

    assert without == []
    assert {sample.labels: sample.value for sample in runner.samples()} == {
        ("pods", ""): 2,
        ("pipelines", ""): 1,
        ("training", ""): 1,
    }
    assert not counting.is_due()


def test_a_server_that_does_no_passes_tells_nothing(site: Site) -> None:
    counting = ActiveUsersPass(site.engine, [], SystemClock())

    assert not counting.is_due()
    assert list(PassRunner(site.engine, site.clock, [counting]).samples()) == []
