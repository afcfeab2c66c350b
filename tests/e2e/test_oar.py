"""A real OAR 2.5: jobs of two users, by its commands and by its REST, and a database that goes away meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.oar_server import USERS, OarServer, rest, running, wait_for

from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.resource_managers.oar import OarManager, build
from kwhere.resource_managers.oar_settings import OarSettings

pytestmark = [pytest.mark.service("oar"), pytest.mark.slow, pytest.mark.managers]
ALICE, BOB = USERS
OVER = {"terminated", "error"}


@pytest.fixture(scope="module")
def oar() -> Iterator[OarServer]:
    with running() as server:
        yield server


def manager(url: str | None = None) -> OarManager:
    return build(OarSettings(manager="oar", cluster="c1", url=url, page_size=2), SystemClock())


def units_of(source: OarManager) -> dict[str, ManagerUnit]:
    now = datetime.now(UTC)
    return {unit.unit: unit for unit in source.fetch_units(Span(now - timedelta(hours=1), now + timedelta(seconds=1)))}


def test_real_jobs_are_told_alike_by_commands_and_by_rest_and_outlive_a_lost_database(oar: OarServer) -> None:
    assert units_of(manager()) == {}

    began = datetime.now(UTC) - timedelta(seconds=2)
    name = 'cfd a|b "é"'
    first = oar.submit(ALICE, "-d", "/tmp", "-l", "core=1,walltime=0:5:0", "--project", "proj1", "-n", name, "sleep 3")
    failing = oar.submit(BOB, "-d", "/tmp", "-t", "besteffort", "-l", "core=1,walltime=0:5:0", "exit 3")
    wait_for(lambda: [unit.state in OVER for unit in units_of(manager()).values()] == [True, True], 90)

    units = units_of(manager())
    with rest() as url:
        assert {k: without_array(unit) for k, unit in units_of(manager(url)).items()} == {
            k: without_array(unit) for k, unit in units.items()
        }
        assert [node.name for node in manager(url).fetch_nodes()] == ["127.0.0.2", "localhost"]
    one, other = units[first], units[failing]
    assert (one.user, one.project, one.name, one.nodes) == (ALICE, "proj1", name, ("localhost",))
    assert (one.allocation.cpus, dict(one.allocation.gpus)) == (1.0, {"a100": 1.0})
    assert one.ended_at is not None
    assert began < one.started_at
    assert one.ended_at - one.started_at >= timedelta(seconds=3)
    assert (other.user, other.queue, other.tags["exit_code"]) == (BOB, "besteffort", "3")

    oar.stop_database()
    with pytest.raises(Unavailable, match="oarnodes -J: "):
        units_of(manager())
    oar.start_database()
    assert units_of(manager()) == units


def test_nodes_of_a_real_oar(oar: OarServer) -> None:
    nodes = {node.name: node for node in manager().fetch_nodes()}

    assert (nodes["localhost"].is_schedulable, nodes["localhost"].cpus) == (True, 2.0)
    assert dict(nodes["localhost"].gpus) == {"a100": 2.0}
    assert (nodes["127.0.0.2"].state, nodes["127.0.0.2"].is_schedulable) == ("dead", False)


def without_array(unit: ManagerUnit) -> ManagerUnit:
    return replace(unit, tags={name: value for name, value in unit.tags.items() if not name.startswith("array")})
