"""A real Prometheus scrapes an agent's HTTP face: over TLS, with a password, in the format it likes best."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests.prometheus_server import PrometheusServer, running_prometheus
from tests.unit.agent.certificates import make_authority
from tests.unit.agent.faces import Face, FaceMaker, local

from kwhere.transport.http import HttpClient

WAIT_SECONDS = 60
SCRAPE = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: kwhere
    scheme: https
    tls_config: {{ca_file: {ca_file}}}
    basic_auth: {{username: prometheus, password: {password}}}
    static_configs: [{{targets: ["{address}"]}}]
  - job_name: stranger
    scheme: https
    tls_config: {{ca_file: {ca_file}}}
    static_configs: [{{targets: ["{address}"]}}]
"""


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Face]:
    authority_dir = tmp_path / "authority"
    authority_dir.mkdir()
    authority = make_authority(authority_dir)
    certificate, key = authority.issue("node1")
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    web = tmp_path / "web.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n"
        f"basic_auth_users: {{prometheus: '{hashed}'}}\n"
    )
    maker = FaceMaker(tmp_path)
    yield maker(settings=local(config_file=web))
    maker.close()


def query(server: PrometheusServer, expression: str) -> list[dict[str, Any]]:
    with HttpClient(server.url) as client:
        answer = client.get("/api/v1/query", params={"query": expression})
    result: list[dict[str, Any]] = json.loads(answer.body)["data"]["result"]
    return result


def wait_for(server: PrometheusServer, expression: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := query(server, expression)):
        assert time.monotonic() < deadline, f"{expression}: never held; up is {query(server, 'up')}"
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.service("prometheus")
def test_prometheus_scrapes_every_sample(face: Face, tmp_path: Path) -> None:
    configuration = SCRAPE.format(
        ca_file=tmp_path / "authority" / "ca.pem", password="secret", address=face.url.removeprefix("https://")
    )
    with running_prometheus(configuration) as server:
        [up] = wait_for(server, 'up{job="kwhere"} == 1')
        [stranger] = wait_for(server, 'up{job="stranger"} == 0')
        energy = wait_for(server, "kwhere_unit_energy_joules_total")
        created = query(server, "kwhere_unit_energy_joules_created")
        [load] = query(server, "kwhere_node_load1")
        [collector] = query(server, 'kwhere_collector_up{collector="units"}')

    assert up["value"][1] == "1"
    assert stranger["value"][1] == "0"
    assert {item["metric"]["unit"]: item["value"][1] for item in energy} == {"42": "1.5", "alice:cfd": "1.5"}
    assert {item["value"][1] for item in created} == {"1795975931"}
    assert load["value"][1] == "0.5"
    assert collector["value"][1] == "1"
