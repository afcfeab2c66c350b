"""Inventory and directory at a real server: files and a real slapd, a file that goes wrong, a source taken away."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests import directory_server
from tests.account_site import Site, worked_case
from tests.directory_server import PASSWORD, PEOPLE, READER, person
from tests.journals import HandJournal
from tests.role_process import RoleProcess

from kwhere.database.engine import open_engine
from kwhere.database.maintenance import upgrade
from kwhere.database.settings import DatabaseSettings

pytestmark = [pytest.mark.slow, pytest.mark.service("slapd")]
NODES = "node,rack,type,power_limit_watts,retired_at\nn1,R07,gpu-a100,2200,2025-12-01\n"


class Served:
    """A server over a database with one node of cluster c1 and the users alice and bob."""

    def __init__(self, folder: Path, directory_url: str) -> None:
        (folder / "state").mkdir()
        engine = open_engine(DatabaseSettings(url=f"sqlite:///{folder}/state/kwhere.db"))
        upgrade(engine)
        Site(engine).take(worked_case(HandJournal(node="n1")))
        engine.dispose()
        self.nodes = folder / "nodes.csv"
        self.nodes.write_text(NODES)
        (folder / "password").write_text(PASSWORD, encoding="utf-8")
        csv = {"source": "csv", "nodes_file": str(self.nodes), "interval_seconds": 1}
        ldap = {"source": "ldap", "url": directory_url, "start_tls": False, "base_dn": PEOPLE, "bind_dn": READER}
        self.sources: list[dict[str, Any]] = [csv, {**ldap, "password_file": str(folder / "password")}]
        self.process = RoleProcess("server", folder, self.configuration())
        self.url = self.process.url()

    def configuration(self) -> str:
        server = {"listen": "127.0.0.1:0", "pass_seconds": 0.2}
        return yaml.safe_dump({"server": server, "inventories": self.sources})

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}api/v1{path}", timeout=20).json()

    def node(self) -> Any:
        return self.get("/nodes")["items"][0]

    def person(self) -> Any:
        return self.get("/users/alice")["items"][0]["person"]

    def wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    entries = [person("alice", "cn: Alice Ampère", "mail: alice@example.org"), person("carol", "cn: Carol")]
    with directory_server.running(tmp_path / "slapd", entries) as directory:
        made = Served(tmp_path, directory.url)
        yield made
        made.process.end()


def test_facts_come_stay_through_a_failure_and_go_with_their_source(served: Served) -> None:
    served.wait(lambda: served.node()["inventory"]["rack"] == "R07" and served.person() is not None)
    node, alice = served.node(), served.person()
    assert (node["state"], node["inventory"]["power_limit_watts"]) == ("retired", 2200.0)
    assert (alice["shown_name"], alice["mail"]) == ("Alice Ampère", "alice@example.org")
    assert served.get("/racks")["items"][0]["nodes"] == 0  # a retired one draws nothing there
    assert served.get("/users/bob")["items"][0]["person"] is None

    served.nodes.write_text(NODES.replace("2200", "2.2 kW"))
    served.wait(lambda: any("line 2: power_limit_watts" in reason for reason in served.get("/health")["reasons"]))
    assert served.node()["inventory"]["rack"] == "R07"

    served.nodes.write_text(NODES.replace("2025-12-01", ""))
    served.wait(lambda: served.node()["state"] != "retired")

    del served.sources[0]
    served.process.file.write_text(served.configuration())
    served.process.reload()
    served.url = served.process.url()
    served.wait(lambda: served.node()["inventory"]["rack"] is None)
    assert served.person()["mail"] == "alice@example.org"
