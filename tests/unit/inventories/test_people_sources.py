"""People from passwd, Keystone and Kubeflow; how sources are found and built."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import openstack_site
from tests.emission_services import HandClock
from tests.kubernetes_api import NODES, PROFILES, ROLE_BINDINGS, TOKEN, FakeKubernetes, kubernetes
from tests.kubernetes_objects import node, profile
from tests.openstack_site import PASSWORD, USERS, Cloud

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.inventory import Inventory, InventoryNode, Person
from kwhere.inventories.keystone import KeystoneSettings, KeystoneSource
from kwhere.inventories.kubeflow import KubeflowSettings, KubeflowSource
from kwhere.inventories.passwd import PasswdSettings, PasswdSource
from kwhere.inventories.registry import build_inventories, find_inventories
from kwhere.inventories.source import InventoryPlugin, SourceSettings


def by_login(found: Inventory) -> dict[str, Person]:
    assert found.people is not None
    return {each.user: each for each in found.people}


PASSWD = """\
root:x:0:0:root:/root:/bin/bash
# a comment: with: six: colons: in: it: x
alice:x:1000:1000:Alice Liddell,Room 7,,:/home/alice:/bin/bash
bob:x:1001:1001::/home/bob:/bin/sh
alice:x:1002:1000:Another:/home/x:/bin/sh
+@netgroup::::::
broken line
"""


def test_full_names_come_from_gecos_and_empty_ones_are_none__case_users_43(tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_text(PASSWD)

    found = by_login(PasswdSource(PasswdSettings(source="passwd", file=file, cluster="c1"), HandClock()).read())

    assert found["alice"] == Person("alice", "c1", "Alice Liddell")
    assert (found["bob"].full_name, found["bob"].shown_name) == (None, "bob")
    assert set(found) == {"root", "alice", "bob"}


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x1e"])
def test_a_full_name_ends_no_line_case_users_39(tmp_path: Path, sign: str) -> None:
    file = tmp_path / "passwd"
    file.write_text(
        f"alice:x:1000:1000:A{sign}mallory:x:1:1:/home:/bin/sh\nbob:x:1:1:Bob:/:/bin/sh\n", encoding="utf-8"
    )

    found = by_login(PasswdSource(PasswdSettings(source="passwd", file=file), HandClock()).read())

    assert set(found) == {"bob"}


def test_without_a_file_the_name_service_switch_is_asked() -> None:
    assert "root" in by_login(PasswdSource(PasswdSettings(source="passwd"), HandClock()).read())


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with openstack_site.serving(Cloud()) as running:
        yield running


def keystone(cloud: Cloud, tmp_path: Path) -> KeystoneSource:
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD, encoding="utf-8")
    words = {"source": "keystone", "auth_url": cloud.url, "username": "kwhere", "secret_file": str(secret)}
    return KeystoneSource(KeystoneSettings.model_validate(words), HandClock())


def test_keystone_s_users_have_the_names_that_units_carry(cloud: Cloud, tmp_path: Path) -> None:
    cloud.users = [
        {**USERS[0], "email": "alice@example.org"},
        {**USERS[1], "email": "not an address"},
        {**USERS[2], "email": None},
    ]
    source = keystone(cloud, tmp_path)

    found = by_login(source.read())

    assert {name: each.mail for name, each in found.items()} == {
        "alice": "alice@example.org",
        "bob@Default": None,
        "bob@lab": None,
    }
    source.close()


def test_users_that_keystone_cut_off_are_no_list(cloud: Cloud, tmp_path: Path) -> None:
    cloud.truncated = True
    source = keystone(cloud, tmp_path)

    with pytest.raises(SourceError, match="cut off"):
        source.read()
    source.close()


def kubeflow(cluster: FakeKubernetes, tmp_path: Path, **more: Any) -> KubeflowSource:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    words = {"source": "kubeflow", "url": cluster.url, "http": {"token_file": str(token)}, "cluster": "k1"}
    return KubeflowSource(KubeflowSettings.model_validate({**words, **more}), HandClock())


def contributor(user: str) -> dict[str, Any]:
    return {"metadata": {"name": f"user-{user}", "namespace": "t", "annotations": {"user": user, "role": "edit"}}}


def test_kubeflow_s_owners_and_contributors_are_people(tmp_path: Path) -> None:
    with kubernetes() as cluster:
        cluster.with_kubeflow()
        cluster.put(PROFILES, profile("team-a", "alice@example.org"))
        cluster.put(PROFILES, profile("team-b", "all", kind="Group"))
        cluster.put(ROLE_BINDINGS, contributor("bob"))
        source = kubeflow(cluster, tmp_path)

        found = source.read()
        source.close()

    assert found.people == (Person("alice@example.org", "k1", mail="alice@example.org"), Person("bob", "k1"))
    assert found.nodes is None


def test_where_nodes_stand_may_come_from_their_labels(tmp_path: Path) -> None:
    labels = {"rack": "R1", "node.kubernetes.io/instance-type": "big", "watts": "800"}
    with kubernetes() as cluster:
        cluster.with_kubeflow()
        cluster.put(NODES, node("n1", labels))
        cluster.put(NODES, node("n2", {"watts": "much"}))
        source = kubeflow(cluster, tmp_path, rack_label="rack", power_limit_label="watts", contributors=False)

        found = source.read()
        source.close()

    assert found.nodes == (InventoryNode("n1", "k1", "R1", "big", 800.0), InventoryNode("n2", "k1"))


def test_without_kubeflow_the_source_says_so(tmp_path: Path) -> None:
    with kubernetes() as cluster:
        source = kubeflow(cluster, tmp_path)
        with pytest.raises(Unavailable):
            source.read()
        source.close()


class Quiet:
    def __init__(self, settings: SourceSettings, clock: object) -> None:
        if settings.cluster == "none":
            raise ConfigError("cluster: there is none")

    def read(self) -> Inventory:
        return Inventory()

    def close(self) -> None:
        pass


PLUGINS = {"quiet": InventoryPlugin("quiet", "Says nothing.", SourceSettings, Quiet)}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{}], "inventories.0.source: expected one of quiet, found None"),
        ([{"source": "sql"}], "inventories.0.source: expected one of quiet, found 'sql'"),
        ([{"source": "quiet", "colour": 1}], "inventories.0.colour: Extra inputs"),
        ([{"source": "quiet", "cluster": "none"}], "inventories.0.cluster: there is none"),
        ([{"source": "quiet"}, {"source": "quiet"}], "inventories.1.name: another entry is called quiet"),
    ],
)
def test_a_wrong_entry_is_told_by_its_key(entries: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        build_inventories(PLUGINS, entries, HandClock())


def test_entries_keep_their_order_and_names() -> None:
    built = build_inventories(PLUGINS, [{"source": "quiet", "name": "a"}, {"source": "quiet"}], HandClock())

    assert [(each.name, each.position) for each in built] == [("a", 0), ("quiet", 1)]


def test_built_in_sources_are_found() -> None:
    found = find_inventories(outside=())

    assert set(found.plugins) == {"csv", "keystone", "kubeflow", "ldap", "passwd"}
