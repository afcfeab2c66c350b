"""A real Keystone and Nova, asked with the rights of docs/openstack.md alone. Three minutes: `make soak` runs it."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.test_soak import SECONDS
from tests.keystone_nova import RealCloud, is_installed, running

from kwhere.core.clock import SystemClock
from kwhere.core.managed import Membership
from kwhere.core.timespan import Span
from kwhere.resource_managers.openstack import OpenStackManager
from kwhere.resource_managers.openstack_settings import OpenStackSettings

pytestmark = [
    pytest.mark.soak,
    pytest.mark.slow,
    pytest.mark.skipif(SECONDS < 600, reason="of the long soak: make soak"),
    pytest.mark.skipif(not is_installed(), reason="the packages keystone, nova-api and openstackclient are not here"),
]
STATES = {"active": "active", "stopped": "shutoff", "shelved_offloaded": "shelved_offloaded", "error": "error"}
STATES |= {"soft-delete": "soft_deleted", "deleted": "deleted", "building": "build"}
MANY = 40


@pytest.fixture(scope="module")
def cloud() -> Iterator[RealCloud]:
    with running() as services:
        yield services


def test_servers_users_and_projects_with_a_role_of_our_own(cloud: RealCloud, tmp_path: Path) -> None:
    cloud.openstack("role", "create", "kwhere")
    secret = tmp_path / "secret"
    secret.write_text("of kwhere\n")
    cloud.openstack("user", "create", "kwhere", "--password", "of kwhere")
    alice = cloud.openstack("user", "create", "alice", "--password", "x")
    cfd = cloud.openstack("project", "create", "cfd")
    for words in (("kwhere", "admin", "kwhere"), ("alice", "cfd", "member")):
        user, project, role = words
        cloud.openstack("role", "add", "--user", user, "--project", project, role)
    rows = [{"id": str(uuid.uuid4()), "name": state, "state": state} for state in STATES]
    rows += [{"id": str(uuid.uuid4()), "name": f"vm{number}", "state": "active"} for number in range(MANY)]
    cloud.seed([{**row, "user": alice, "project": cfd} for row in rows])
    settings = OpenStackSettings(
        manager="openstack",
        cluster="c1",
        auth_url=cloud.auth_url,
        username="kwhere",
        project="admin",
        secret_file=secret,
        page_size=7,
        gpu_aliases={"a100": "a100"},
    )
    manager = OpenStackManager(settings, SystemClock())
    now = datetime.now(UTC)

    units = {
        unit.name: unit for unit in manager.fetch_units(Span(now - timedelta(hours=1), now + timedelta(seconds=1)))
    }
    queue = manager.fetch_queue()
    accounts = manager.fetch_accounts()
    manager.fetch_nodes()
    manager.close()

    assert len(units) == MANY + len(STATES) - 1
    assert {name: units[name].state for name in STATES if name != "building"} == {
        name: state for name, state in STATES.items() if name != "building"
    }
    assert {(unit.user, unit.project) for unit in units.values()} == {("alice", "cfd")}
    assert [name for name, unit in units.items() if unit.ended_at] == ["deleted"]
    assert (units["active"].allocation.cpus, dict(units["active"].allocation.gpus)) == (2.0, {"a100": 1.0})
    assert [waits.name for waits in queue.waiting] == ["building"]
    assert queue.living is not None
    assert len(queue.living) == MANY + len(STATES) - 1
    assert Membership("alice", "cfd") in accounts.memberships
    assert json.dumps(sorted(account.name for account in accounts.accounts)) == '["admin", "cfd"]'
