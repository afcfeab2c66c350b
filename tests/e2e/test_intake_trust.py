"""The intake over TLS: who may answer for a node, and who is shown the server's certificate."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.databases import sqlite_engine
from tests.e2e.intake_world import Agent, Server, assert_balanced, count
from tests.unit.agent.certificates import Authority, make_authority
from tests.unit.ledger.journals import StandingClock

from kwhere.database import schema
from kwhere.server.settings import TargetGroup
from kwhere.server.targets import Targets


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = sqlite_engine(tmp_path / "account.sqlite")
    yield made
    made.dispose()


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name of the tests be this machine."""
    look_up = socket.getaddrinfo

    def at_home(host: Any, *words: Any, **more: Any) -> Any:
        return look_up("127.0.0.1" if str(host).endswith(".example") else host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", at_home)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    directory = tmp_path / "authority"
    directory.mkdir()
    return make_authority(directory)


@pytest.fixture
def web_config(tmp_path: Path, authority: Authority) -> Path:
    """An agent's certificate for c1.example, and that it wants to see one too."""
    certificate, key = authority.issue("c1.example")
    web = tmp_path / "web.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, client_ca_file: {authority.ca_file},"
        " client_auth_type: RequireAndVerifyClientCert}"
    )
    return web


@pytest.fixture
def agent(tmp_path: Path, web_config: Path) -> Iterator[Agent]:
    """The agent of node c1."""
    made = Agent(tmp_path / "agent", web_config=web_config)
    made.append(3)
    yield made
    made.stop()


def pull(engine: Engine, authority: Authority, tmp_path: Path, address: str, **more: object) -> str:
    """Read what a file of targets names; return the fault."""
    certificate, key = authority.issue("server1")
    file = tmp_path / "targets.json"
    file.write_text(json.dumps([{"targets": [address]}]))
    client = {"ca_file": authority.ca_file, "client_certificate_file": certificate, "client_key_file": key}
    group = TargetGroup.model_validate({"name": "g", "cluster": "c", "files": [file], "client": client, **more})
    targets = Targets([group], StandingClock())
    targets.refresh()
    server = Server(engine, targets.current(), connect=targets.connect)
    server.pull()
    server.intake.stop()
    (target,) = server.targets
    return server.fault(target)


def test_a_host_that_configuration_names_is_read(
    engine: Engine, agent: Agent, authority: Authority, tmp_path: Path
) -> None:
    assert pull(engine, authority, tmp_path, f"c1.example:{agent.port}", hosts=["*.example"]) == ""

    assert_balanced(engine, 3)


def test_a_host_that_only_discovery_names_sees_no_certificate(
    engine: Engine, agent: Agent, authority: Authority, tmp_path: Path
) -> None:
    fault = pull(engine, authority, tmp_path, f"c1.example:{agent.port}")

    assert "discovery alone named this host" in fault
    assert count(engine, schema.slots) == 0


def test_a_certificate_of_another_host_is_refused(
    engine: Engine, agent: Agent, authority: Authority, tmp_path: Path
) -> None:
    fault = pull(engine, authority, tmp_path, f"c2.example:{agent.port}", hosts=["*.example"])

    assert "c2.example" in fault
    assert count(engine, schema.slots) == 0


def test_a_node_may_not_speak_for_another(
    engine: Engine, web_config: Path, authority: Authority, tmp_path: Path
) -> None:
    liar = Agent(tmp_path / "liar", node="c7", web_config=web_config)
    liar.append()

    fault = pull(engine, authority, tmp_path, f"c1.example:{liar.port}", hosts=["*.example"])
    liar.stop()

    assert "expected a page of node c1.example, found c7" in fault
    assert count(engine, schema.slots) == 0
