"""OpenStack: logging in, paging, who owns a server, and when it ran."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests.emission_services import HandClock
from tests.openstack_site import PASSWORD, UUID, Cloud, ended, server, serving

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.managed import Account, ManagerUnit, Membership
from kwhere.core.timespan import Span
from kwhere.resource_managers.keystone import Keystone
from kwhere.resource_managers.nova import compute_url_of
from kwhere.resource_managers.openstack import OpenStackManager, plugin
from kwhere.resource_managers.openstack_lists import identity_rows
from kwhere.resource_managers.openstack_names import Names, accounts_of, names_by_id
from kwhere.resource_managers.openstack_servers import Reading, flavors_by_id, gpus_of, node_of, unit_of, waiting_of
from kwhere.resource_managers.openstack_settings import OpenStackSettings
from kwhere.resource_managers.resource_manager import QueueingManager
from kwhere.resource_managers.rest_values import decode, instant

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPAN = Span(NOON, NOON + timedelta(hours=6))
GIB = 1024**3


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with serving(Cloud()) as running:
        yield running


def settings_of(url: str, secret: Path, **more: Any) -> OpenStackSettings:
    words = {"manager": "openstack", "cluster": "c1", "auth_url": url, "username": "kwhere", "secret_file": str(secret)}
    return OpenStackSettings.model_validate({**words, "project": "admin", **more})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{PASSWORD}\n", encoding="utf-8")
    return path


@pytest.fixture
def manager(cloud: Cloud, secret: Path) -> Iterator[OpenStackManager]:
    made = OpenStackManager(settings_of(cloud.url, secret, page_size=2), HandClock())
    yield made
    made.close()


def units_of(manager: OpenStackManager, span: Span = SPAN) -> dict[str, ManagerUnit]:
    return {unit.name or unit.unit: unit for unit in manager.fetch_units(span)}


def read(**changes: Any) -> ManagerUnit:
    unit = unit_of(server(1, **changes), Reading("c1", gpu_aliases={"a100": "a100"}))
    assert unit is not None
    return unit


def test_a_server_is_a_unit_of_libvirt_with_names_from_keystone__case_users_44(
    cloud: Cloud, manager: OpenStackManager
) -> None:
    cloud.servers = [server(1), server(2, user_id="gone", tenant_id="p2")]

    units = units_of(manager)

    first, second = units["vm1"], units["vm2"]
    assert (first.manager, first.unit, first.run) == ("libvirt", UUID.format(1), UUID.format(1))
    assert (first.user, first.project, first.state) == ("alice", "cfd", "active")
    assert (first.started_at, first.ended_at) == (NOON, None)
    assert (first.allocation.cpus, first.allocation.memory_bytes) == (8.0, 16 * GIB)
    assert (first.tags["flavor"], first.tags["host"], first.queue) == ("g.large", "cmp1.example", "nova")
    assert (second.user, second.project) == ("gone", "old")
    assert plugin.claims == "libvirt"


def test_pages_are_followed_by_marker_and_deleted_servers_come_too(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(number) for number in range(1, 6)]
    cloud.deleted = [
        ended(6, "2026-01-01T12:30:00.000000"),
        ended(7, "2026-01-01T11:59:59", created="2026-01-01T09:00:00Z"),
        ended(8, "2026-01-01T13:00:00"),
    ]
    cloud.deleted[1]["OS-SRV-USG:launched_at"] = "2026-01-01T09:00:00"

    units = units_of(manager)

    assert sorted(units) == ["vm1", "vm2", "vm3", "vm4", "vm5", "vm6", "vm8"]
    assert units["vm6"].ended_at == NOON + timedelta(minutes=30)
    listed = [query for path, query, _ in cloud.asked if path == "/v2.1/servers/detail"]
    asked = [query for query in listed if "status" not in query]
    assert [(query.get("deleted"), query.get("marker", "")[-1:]) for query in asked] == [
        ("true", ""),
        ("true", "7"),
        (None, ""),
        (None, "2"),
        (None, "4"),
    ]
    assert all(query["all_tenants"] == "1" for query in asked)
    assert asked[0]["changes-since"] == "2026-01-01T12:00:00Z"


def test_a_server_deleted_between_two_lists_is_told_once(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1)]
    cloud.deleted = [ended(1, "2026-01-01T13:00:00")]

    assert [unit.state for unit in manager.fetch_units(SPAN)] == ["deleted"]


def test_what_exists_is_not_listed_again_for_each_span_of_a_first_look(cloud: Cloud, secret: Path) -> None:
    clock = HandClock()
    manager = OpenStackManager(settings_of(cloud.url, secret), clock)
    for _ in range(3):
        list(manager.fetch_units(SPAN))
    clock.ahead(seconds=31)
    list(manager.fetch_units(SPAN))
    manager.close()

    listed = [query for path, query, _ in cloud.asked if path.endswith("servers/detail") and "deleted" not in query]
    assert len([query for query in listed if "status" not in query]) == 2
    assert len(listed) == 4


def test_what_is_built_waits_and_what_nova_has_lives(cloud: Cloud, manager: OpenStackManager) -> None:
    building = {"status": "BUILD", "OS-SRV-USG:launched_at": None, "OS-EXT-STS:task_state": "spawning"}
    cloud.servers = [server(1), server(2, **building), server(3, status="ERROR")]
    cloud.deleted = [ended(4, "2026-01-01T13:00:00"), server(5, status="SOFT_DELETED")]

    queue = manager.fetch_queue()

    (waits,) = queue.waiting
    assert isinstance(manager, QueueingManager)
    assert (waits.manager, waits.unit, waits.state, waits.reason) == ("libvirt", UUID.format(2), "build", "spawning")
    runs = units_of(manager)["vm1"]
    assert (waits.user, waits.project, waits.asked) == (runs.user, runs.project, runs.allocation)
    # One that is deleted softly may come back.
    assert queue.living == frozenset(UUID.format(number) for number in (1, 2, 3, 5))


def test_a_token_that_ended_is_renewed_once(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1)]
    units_of(manager)
    cloud.is_expired = True

    manager.fetch_nodes()

    assert (cloud.token_number, len(cloud.logins)) == (2, 2)


def test_a_wrong_password_is_told_without_it(cloud: Cloud, manager: OpenStackManager, secret: Path) -> None:
    secret.write_text("secret-that-is-wrong\n")

    with pytest.raises(Unavailable, match="auth/tokens: HTTP status 401: the user, secret or scope") as caught:
        units_of(manager)
    assert "secret-that-is-wrong" not in str(caught.value)
    assert len(cloud.logins) == 1


@pytest.mark.parametrize(
    ("more", "method", "scope"),
    [
        ({}, "password", {"project": {"name": "admin", "domain": {"name": "Default"}}}),
        ({"project": None}, "password", {"system": {"all": True}}),
        ({"username": None, "application_credential_id": "ac1"}, "application_credential", None),
    ],
)
def test_ways_in(cloud: Cloud, secret: Path, more: dict[str, Any], method: str, scope: object) -> None:
    manager = OpenStackManager(settings_of(f"{cloud.url}/v3/", secret, **more), HandClock())
    manager.fetch_nodes()
    manager.close()

    auth = cloud.logins[0]["auth"]
    assert auth["identity"]["methods"] == [method]
    assert auth.get("scope") == scope


@pytest.mark.parametrize(
    ("body", "reason"), [("", "secret"), ("a\nb\n", "secret"), (None, "secret")], ids=["empty", "two lines", "absent"]
)
def test_a_secret_file_that_is_none_is_named(cloud: Cloud, tmp_path: Path, body: str | None, reason: str) -> None:
    path = tmp_path / "other"
    if body is not None:
        path.write_text(body)

    with pytest.raises(Unavailable, match=f"secret_file {path}") as caught:
        OpenStackManager(settings_of(cloud.url, path), HandClock()).fetch_nodes()
    assert caught.value.reason == reason


def test_who_may_not_list_all_is_told_so(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.forbidden = ("/v2.1/servers/detail",)

    with pytest.raises(
        Unavailable, match="HTTP status 403: Policy doesn't allow os_compute_api:x to be perf"
    ) as caught:
        units_of(manager)
    assert caught.value.reason == "permission"


def test_a_server_that_is_deleted_softly_says_so_however_long_ago(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1)]
    cloud.deleted = [server(5, status="SOFT_DELETED")]
    later = Span(SPAN.start + timedelta(days=40), SPAN.end + timedelta(days=40))

    units = units_of(manager, later)

    assert {name: (unit.state, unit.ended_at) for name, unit in units.items()} == {
        "vm1": ("active", None),
        "vm5": ("soft_deleted", None),
    }
    # Who may see all projects need not be an administrator: others' filter `deleted` is passed over (Nova 26.2).
    assert not any(query.get("deleted") and query.get("status") for _, query, _ in cloud.asked)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"forbidden": 3}', b'{"error": {"message": ["a"]}}', b"\xff\0"])
def test_a_refusal_without_words_is_told_in_ours(cloud: Cloud, manager: OpenStackManager, body: bytes) -> None:
    cloud.forbidden = ("/v2.1/servers/detail",)
    cloud.bodies["/v2.1/servers/detail"] = body

    with pytest.raises(Unavailable, match="HTTP status 403: the user may not list"):
        units_of(manager)


def test_ids_are_shown_where_keystone_may_not_be_listed(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1)]
    cloud.forbidden = ("/v3/users",)

    with capture_logs() as logs:
        units = units_of(manager)
        units_of(manager)

    assert (units["vm1"].user, units["vm1"].project) == ("u1", "p1")
    assert [entry["event"] for entry in logs] == ["users and projects are shown by id"]


def test_projects_and_memberships_are_replaced_as_a_whole__case_ceems_540(
    cloud: Cloud, manager: OpenStackManager
) -> None:
    before = manager.fetch_accounts()
    cloud.assignments = [row for row in cloud.assignments if row.get("user", {}).get("id") != "u1"]
    after = manager.fetch_accounts()

    assert before.accounts == (Account("cfd", "Fluids", None), Account("old", None, "cfd"))
    assert before.memberships == (Membership("alice", "cfd"), Membership("bob@lab", "cfd"))
    assert after.memberships == (Membership("bob@lab", "cfd"),)


def test_a_list_that_keystone_cut_off_replaces_nothing(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.truncated = True

    with pytest.raises(SourceError, match="list_limit"):
        manager.fetch_accounts()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"servers": 5}', b'{"servers": [{"id": "a"', b"\xff"])
def test_nonsense_is_told(cloud: Cloud, manager: OpenStackManager, body: bytes) -> None:
    cloud.bodies["/v2.1/servers/detail"] = body

    with pytest.raises(SourceError, match="servers/detail: expected"):
        units_of(manager)


@pytest.mark.parametrize("row", [None, 5, "x", []])
def test_a_list_with_something_else_in_it_is_no_list(cloud: Cloud, manager: OpenStackManager, row: object) -> None:
    cloud.bodies["/v2.1/servers/detail"] = json.dumps({"servers": [server(1), row]}).encode()
    cloud.bodies["/v3/role_assignments"] = json.dumps({"role_assignments": [row]}).encode()

    for ask in (manager.fetch_queue, manager.fetch_accounts, lambda: units_of(manager)):
        with pytest.raises(SourceError, match="expected a list of objects, found"):
            ask()


@pytest.mark.parametrize("following", ["?page=2", "::::", "http://elsewhere/?page=2"])
def test_pages_that_lead_back_are_not_read_for_ever(cloud: Cloud, manager: OpenStackManager, following: str) -> None:
    cloud.bodies["/v3/projects"] = json.dumps({"projects": [], "links": {"next": following}}).encode()

    with pytest.raises(SourceError, match="/projects: expected an end of its pages"):
        manager.fetch_accounts()
    assert len([path for path, _, _ in cloud.asked if path == "/v3/projects"]) <= 2


def test_pages_without_an_end_are_told_as_too_many_and_not_as_a_circle() -> None:
    class Endless:
        def identity(self, path: str, params: Mapping[str, str]) -> Mapping[str, object]:
            return {"users": [], "links": {"next": f"?page={int(params.get('page', 0)) + 1}"}}

    with pytest.raises(SourceError, match="/users: more than 1000 pages"):
        identity_rows(cast(Keystone, Endless()), "/users", "users")


def test_a_server_without_an_id_may_be_any(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1), server(2, id=None)]

    assert manager.fetch_queue().living is None


@pytest.mark.parametrize("created", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 5, None, "yesterday"])
def test_a_time_of_creation_that_is_none_leaves_the_launch(created: object) -> None:
    unit = read(created=created)

    assert (unit.started_at, unit.submitted_at) == (NOON + timedelta(seconds=20), None)


@pytest.mark.parametrize("number", [-1, 10**14, 10**30, True, "1.5", float("inf"), [], None])
def test_a_size_that_is_none_is_not_known(number: object) -> None:
    specs = {"pci_passthrough:alias": "a100:99999999", "resources:VGPU": number}
    given = read(flavor={"vcpus": number, "ram": number, "extra_specs": specs}).allocation

    assert (given.cpus, given.memory_bytes, dict(given.gpus)) == (None, None, {})


def test_one_bad_server_is_counted_and_the_others_are_read(cloud: Cloud, manager: OpenStackManager) -> None:
    cloud.servers = [server(1, status=None), server(2)]

    with capture_logs() as logs:
        units = units_of(manager)

    assert list(units) == ["vm2"]
    assert logs[0]["count"] == 1


def test_a_rebuilt_server_keeps_its_start() -> None:
    unit = read(**{"OS-SRV-USG:launched_at": "2026-01-05T08:00:00.000000"})

    assert unit.started_at == NOON


@pytest.mark.parametrize("status", ["BUILD", "ERROR", "DELETED"])
def test_a_server_that_never_ran_is_no_unit(status: str) -> None:
    assert unit_of(server(1, status=status, **{"OS-SRV-USG:launched_at": None}), Reading("c1")) is None


@pytest.mark.parametrize(
    ("status", "cpus"),
    [("ACTIVE", 8.0), ("SHUTOFF", 8.0), ("PAUSED", 8.0), ("SHELVED", 8.0), ("SHELVED_OFFLOADED", 0.0)],
)
def test_a_stopped_server_holds_its_cpus_and_an_offloaded_one_none(status: str, cpus: float) -> None:
    unit = read(status=status)

    assert (unit.allocation.cpus, unit.state, unit.ended_at) == (cpus, status.lower(), None)


def test_a_soft_deleted_server_may_come_back() -> None:
    assert read(status="SOFT_DELETED").ended_at is None


def test_a_deleted_server_without_an_end_ended_when_it_was_last_changed() -> None:
    assert read(status="DELETED", updated="2026-01-01T15:00:00Z").ended_at == NOON + timedelta(hours=3)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"status": 5},
        {"status": "DELETED", "updated": None},
        {"OS-SRV-USG:launched_at": "yesterday"},
        {"status": "DELETED", "OS-SRV-USG:terminated_at": "2026-01-01T11:00:00"},
    ],
)
def test_a_server_that_cannot_be_read_is_told(changes: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="expected"):
        read(**changes)


@pytest.mark.parametrize(
    ("specs", "gpus"),
    [
        ({"pci_passthrough:alias": "a100:2,nic:1"}, {"a100": 2.0}),
        ({"pci_passthrough:alias": "a100"}, {"a100": 1.0}),
        ({"pci_passthrough:alias": "My-GPU:4"}, {"my-gpu": 4.0}),
        ({"pci_passthrough:alias": "a100:x, a100:1"}, {"a100": 1.0}),
        ({"resources:VGPU": "1"}, {"vgpu": 1.0}),
        ({"resources1:CUSTOM_GPU_H100": "2", "resources:CUSTOM_FPGA": "1"}, {"gpu_h100": 2.0}),
        ({"resources:VGPU": "0", "pci_passthrough:alias": 5}, {}),
        ({}, {}),
    ],
)
def test_gpus_of_a_flavour(specs: dict[str, Any], gpus: dict[str, float]) -> None:
    assert gpus_of(specs, {"a100": "a100"}) == gpus


def test_before_2_47_flavours_are_looked_up() -> None:
    flavors = flavors_by_id([{"id": "f1", "name": "m1.tiny", "vcpus": 1, "ram": 64}])

    unit = unit_of(server(1, flavor={"id": "f1"}), Reading("c1", flavors=flavors))

    assert unit is not None
    assert (unit.allocation.cpus, unit.allocation.memory_bytes, unit.tags["flavor"]) == (1.0, 64 << 20, "m1.tiny")


def test_an_old_nova_s_flavours_are_asked_for_with_their_extra_specs_and_stay_known(cloud: Cloud, secret: Path) -> None:
    clock = HandClock()
    manager = OpenStackManager(settings_of(cloud.url, secret, microversion="2.1", page_size=2), clock)
    cloud.flavors = [
        {"id": "f1", "name": "m1.gpu", "vcpus": 4, "ram": 1024},
        {"id": "f2", "name": "private", "vcpus": 2, "ram": 512, "hidden": True},
    ]
    cloud.extra_specs = {"f1": {"pci_passthrough:alias": "My-GPU:2"}}
    cloud.servers = [server(number, flavor={"id": f"f{number}"}) for number in (1, 2, 3)]

    first = units_of(manager)
    del cloud.flavors[:]
    clock.ahead(seconds=3600)
    later = units_of(manager)
    manager.close()

    for units in (first, later):
        assert (units["vm1"].allocation.cpus, dict(units["vm1"].allocation.gpus)) == (4.0, {"my-gpu": 2.0})
        assert (units["vm2"].allocation.cpus, units["vm2"].allocation.memory_bytes) == (2.0, 512 << 20)
        assert units["vm3"].allocation.cpus is None
    asked = [path for path, _, _ in cloud.asked]
    assert asked.count("/v2.1/flavors/f1/os-extra_specs") == 1
    assert asked.count("/v2.1/flavors/f3") == 1


def test_a_flavour_nobody_knows_is_not_zero() -> None:
    assert read(flavor={"id": "gone"}).allocation.cpus is None


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        ("up", "enabled", ("up", True)),
        ("up", "disabled", ("disabled", False)),
        ("down", "enabled", ("down", False)),
        ("down", "disabled", ("down", False)),
    ],
)
def test_hypervisors_are_nodes(state: str, status: str, expected: tuple[str, bool]) -> None:
    node = node_of(
        {
            "id": 1,
            "hypervisor_hostname": "cmp1",
            "state": state,
            "status": status,
            "vcpus": 64,
            "vcpus_used": 0,
            "memory_mb": 1024,
            "service": {"host": "cmp1", "disabled_reason": "new disk"},
        }
    )

    assert node is not None
    assert (node.state, node.is_schedulable) == expected
    assert (node.cpus, node.memory_bytes, node.reason) == (64.0, GIB, "new disk")
    assert node.allocated is not None
    assert node.allocated.cpus == 0.0


def test_a_region_must_be_chosen_where_there_are_two(secret: Path) -> None:
    endpoints = [{"interface": "public", "region_id": name, "url": f"https://{name}.example"} for name in ("A", "B")]
    token = {"token": {"catalog": [{"type": "compute", "endpoints": endpoints}]}}

    assert compute_url_of(token, settings_of("https://k", secret, region="B")) == "https://B.example"
    with pytest.raises(Unavailable, match="one region, or the setting region; found A, B"):
        compute_url_of(token, settings_of("https://k", secret))
    with pytest.raises(Unavailable, match="internal, region A; found none"):
        compute_url_of(token, settings_of("https://k", secret, region="A", interface="internal"))


def test_a_password_is_not_sent_in_the_clear(secret: Path) -> None:
    with pytest.raises(ConfigError, match="https"):
        OpenStackManager(settings_of("http://keystone.example/v3", secret), HandClock())


@pytest.mark.parametrize(
    "wrong", [{"application_credential_id": "a"}, {"username": None}, {"http": {"token_file": "/t"}}, {"colour": 1}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings_of("https://k", Path("/s"), **wrong)


KEYS = st.sampled_from([*server(1), "vcpus", "ram", "extra_specs", "user", "scope", "project", "name", "state"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("2026-01-01T12:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=15,
)


@given(st.dictionaries(KEYS, JSON, max_size=12))
def test_any_record_is_a_unit_or_an_error(record: dict[str, object]) -> None:
    node_of(record)
    names = Names(names_by_id([record], {}), names_by_id(record, {}))
    accounts_of([record], [record], names)
    try:
        unit = unit_of({**server(1), **record}, Reading("c", names))
    except SourceError:
        return
    assert unit is None or unit.ended_at is None or unit.ended_at >= unit.started_at


@given(st.binary(max_size=50))
def test_any_bytes_are_an_object_or_an_error(body: bytes) -> None:
    with contextlib.suppress(SourceError):
        decode(body, "nova")


@given(st.text(max_size=40) | JSON)
def test_any_value_is_a_time_or_none(value: object) -> None:
    assert (found := instant(value)) is None or found.tzinfo is not None


RECORDED = Path(__file__).parents[2] / "fixtures" / "openstack"


def recorded(name: str) -> Any:
    return decode((RECORDED / f"{name}.json").read_bytes(), name)[name if name != "deleted" else "servers"]


def test_what_a_real_nova_and_keystone_said_is_read() -> None:
    names = Names(names_by_id(recorded("users"), {}), names_by_id(recorded("projects"), {}))
    reading = Reading("c1", names, gpu_aliases={"a100": "a100"})

    units = [unit_of(record, reading) for record in (*recorded("deleted"), *recorded("servers"))]

    told = [(unit.name, unit.state, unit.user, unit.project, unit.ended_at is None) for unit in units if unit]
    assert told == [
        ("vm5", "deleted", "alice", "cfd", False),
        ("vm4", "shutoff", "alice", "cfd", True),
        ("vm3", "active", "alice", "cfd", True),
    ]
    assert all(unit and (unit.allocation.cpus, unit.allocation.gpus) == (2.0, {"a100": 2.0}) for unit in units)
    accounts = accounts_of(recorded("projects"), recorded("role_assignments"), names)
    assert accounts.memberships == (Membership("admin", "admin"), Membership("alice", "cfd"))


HELD = (1.0, 64 * 1024**2)
STATES = {
    "broken": ("error", *HELD), "ghost": ("active", *HELD), "lab \"é\" <b>": ("active", *HELD),
    "legacy": ("active", 2.0, 2 * GIB), "migrating": ("migrating", *HELD), "offloaded": ("shelved_offloaded", 0.0, 0),
    "paused": ("paused", *HELD), "rebooting": ("reboot", *HELD), "rebuilding": ("rebuild", *HELD),
    "rescued": ("rescue", *HELD), "resized": ("verify_resize", *HELD), "shelved": ("shelved", *HELD),
    "soft": ("soft_deleted", *HELD), "stopped": ("shutoff", *HELD), "suspended": ("suspended", *HELD),
    "train": ("active", 4.0, 8 * GIB), "viz": ("active", 2.0, 4 * GIB), "web": ("active", *HELD),
}  # fmt: skip


def test_every_state_of_a_real_nova() -> None:
    """Placement keeps what a server holds until it is offloaded or gone."""
    document = json.loads((RECORDED / "states.json").read_text())
    reading = Reading("c1", gpu_aliases={"a100": "a100"})

    units = {unit.name: unit for row in document["servers"] if (unit := unit_of(row, reading)) is not None}
    waiting = [waits.name for row in document["servers"] if (waits := waiting_of(row, reading)) is not None]

    living = {name: unit for name, unit in units.items() if unit.ended_at is None}
    told = {name: (unit.state, unit.allocation.cpus, unit.allocation.memory_bytes) for name, unit in living.items()}
    assert told == STATES
    assert {name: unit.state for name, unit in units.items() if name not in living} == {
        f"gone{number}": "deleted" for number in range(3)
    }
    assert waiting == ["building"]  # what failed before it ran neither waits nor is a unit
    assert dict(units["train"].allocation.gpus) == {"a100": 2.0}
    assert dict(units["viz"].allocation.gpus) == {"vgpu": 1.0}
