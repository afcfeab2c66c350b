"""SIGHUP on a real agent: a right configuration takes effect, a wrong one leaves the old one in force."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.role_process import RoleProcess

RIGHT = """
agent: {node: n1, interval_seconds: 0.2, slot_seconds: 1}
web: {listen_addresses: ["127.0.0.1:0"]}
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RoleProcess]:
    started = RoleProcess("agent", tmp_path, RIGHT)
    yield started
    started.end()


def said(url: str) -> tuple[str, set[str]]:
    """Return the digest of the configuration in force, and the collectors that run."""
    digest, collectors = "", set()
    for family in text_string_to_metric_families(httpx.get(f"{url}metrics", timeout=10).text):
        for sample in family.samples:
            if sample.name == "kwhere_config_info":
                digest = sample.labels["sha256"]
            elif sample.name == "kwhere_collector_up":
                collectors.add(sample.labels["collector"])
    return digest, collectors


def test_a_wrong_one_stays_out_and_a_right_one_takes_effect(agent: RoleProcess) -> None:
    url = agent.url()
    before = said(url)
    agent.file.write_text(RIGHT + "collector: {load: {enabld: false}}\n")
    agent.reload()
    told = agent.read_until("the old one stays in force")
    after_wrong = said(url)
    (agent.file.parent / "conf.d").mkdir()
    (agent.file.parent / "conf.d" / "load.yaml").write_text("collector: {load: {enabled: false}}\n")
    agent.file.write_text(RIGHT)
    agent.reload()
    url = agent.url()  # port 0: another one
    after_right = said(url)
    agent.process.send_signal(signal.SIGTERM)

    assert agent.process.wait(10) == 0
    assert "collector.load.enabld" in told
    assert after_wrong == before
    assert "load" in before[1]
    assert after_right[1] == before[1] - {"load"}
    assert after_right[0] != before[0]


def test_a_port_that_is_taken_brings_the_old_one_back(agent: RoleProcess) -> None:
    url = agent.url()
    before = said(url)
    agent.file.write_text(RIGHT.replace("127.0.0.1:0", "127.0.0.1:1x"))
    agent.reload()
    agent.read_until("the old one comes back")
    after = said(agent.url())
    agent.process.send_signal(signal.SIGTERM)

    assert agent.process.wait(10) == 0
    assert after == before
