"""An agent put together: what it refuses, what it takes up, and that it gives everything back."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.fixtures.hosts.build import HOSTS

from kwhere.agent.runtime import Agent
from kwhere.apps.agent import BuiltAgent, build_agent, chosen_collectors, identify, timing_of
from kwhere.apps.agent_settings import AgentConfig
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_slot
from kwhere.ledger.pages import COLUMNS
from kwhere.ledger.rows import Slot


def config(host: str | None = None, **sections: Any) -> AgentConfig:
    tree: dict[str, Any] = {"agent": {"node": "n1", "machine_id": "m1", "boot_id": "b1"}}
    if host is not None:
        tree["path"] = {area: HOSTS / host / name for area, name in AREAS.items()}
    for section, values in sections.items():
        tree[section] = {**tree.get(section, {}), **values}
    return AgentConfig.model_validate(tree)


AREAS = {"procfs": "proc", "sysfs": "sys", "cgroupfs": "cgroup"}


def slots_of(built: BuiltAgent) -> list[Slot]:
    assert built.journal is not None
    return [decode_slot(line, COLUMNS).slot for line in built.journal.read(None, 100).lines]


def test_a_recorded_nodes_two_moments_become_a_slot(tmp_path: Path) -> None:
    built = build_agent(config("xeon-2s-dram"), tmp_path)
    sampler = built.agent.sampler

    sampler.step()
    built.host.select_snapshot(1)
    sampler.finish()
    (slot,) = slots_of(built)
    built.agent.stop()

    assert residuals(slot) == {}
    assert {str(control.component): control.energy_uj for control in slot.controls} == {
        "cpu": 3_000_000_000,
        "dram": 350_000_000,
    }
    assert slot.node_busy_ns == 57_550_000_000  # 41.55 + 16 s
    assert slot.monotonic_ns == 10_000_000_000


def test_a_second_process_takes_up_the_first_ones_account(tmp_path: Path) -> None:
    first = build_agent(config(agent={"slot_seconds": 1}), tmp_path)
    first.agent.start()
    first.agent.stop()

    with structlog.testing.capture_logs() as logs:
        second = build_agent(config(agent={"slot_seconds": 1}), tmp_path)
    result = second.agent.sampler.step()
    second.agent.stop()

    assert {"event": "took up the account of an earlier process", "same_boot": True, "log_level": "info"} in logs
    assert result.slot is not None
    assert "gap" in result.slot.flags


def test_another_boot_is_not_taken_up(tmp_path: Path) -> None:
    first = build_agent(config(agent={"slot_seconds": 1}), tmp_path)
    first.agent.start()
    first.agent.stop()

    second = build_agent(config(agent={"slot_seconds": 1, "boot_id": "b2"}), tmp_path)
    result = second.agent.sampler.step()
    second.agent.stop()

    assert result.slot is None


def test_everything_is_given_back(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    built = build_agent(config(), tmp_path)
    built.agent.start()

    built.agent.stop()

    assert not built.agent.thread.alive
    assert len(os.listdir("/proc/self/fd")) <= len(before)


class Face:
    """A face that may refuse to start."""

    def __init__(self, agent: Agent, error: Exception | None = None) -> None:
        self.agent = agent
        self.error = error
        self.seen: list[str] = []

    def start(self) -> None:
        assert self.agent.totals() is not None
        self.seen.append("start")
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.seen.append("stop")


def test_faces_start_after_the_first_step_and_all_end_when_one_fails(tmp_path: Path) -> None:
    built = build_agent(config(), tmp_path)
    good, bad = Face(built.agent), Face(built.agent, ConfigError("web.listen_addresses: taken"))
    built.agent.faces += [good, bad]

    with pytest.raises(ConfigError, match="taken"):
        built.agent.start()

    assert (good.seen, bad.seen) == (["start", "stop"], ["start"])
    assert not built.agent.thread.alive


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"agent": {"slot_seconds": 2, "interval_seconds": 5}}, r"agent\.slot_seconds: expected at least"),
        ({"agent": {"idle_watts": {"fan": 3}}}, r"agent\.idle_watts\.fan: expected one of cpu, dram, gpu, other"),
        ({"collector": {"nothing": {}}}, r"collector\.nothing: expected one of"),
        ({"collector": {"load": {"colour": "red"}}}, r"collector\.load\.colour: "),
    ],
)
def test_a_wrong_setting_is_named(sections: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_agent(config("xeon-2s-dram", **sections), None)


def test_a_tree_without_proc_stat_is_refused(tmp_path: Path) -> None:
    wrong = AgentConfig.model_validate({"path": dict.fromkeys(AREAS, tmp_path)})

    with pytest.raises(Unavailable):
        build_agent(wrong, None)


def test_collectors_can_be_left_out() -> None:
    names = {plugin.name for plugin, _ in chosen_collectors({"load": {"enabled": False}})}

    assert "load" not in names
    assert {"units", "energy", "sampler", "cpu"} <= names


def test_a_node_has_a_name_and_ids_whatever_the_machine_says() -> None:
    host = HostFS(*(HOSTS / "xeon-2s-dram" / name for name in AREAS.values()))

    found = identify(AgentConfig().agent, host)

    assert found.node
    assert found.machine_id
    assert found.boot_id


def test_lengths_are_in_nanoseconds() -> None:
    found = timing_of(config(agent={"slot_seconds": 10, "first_slot_seconds": 2}).agent)

    assert (found.slot_ns, found.first_slot_ns, found.detail_ns) == (10**10, 2 * 10**9, 15 * 10**9)
