import shutil
from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS
from tests.recorded_hosts import Values, open_host, said, said_at_both_moments

from kwhere.collectors.network import plugin
from kwhere.kernel.hostfs import HostFS


def interfaces(found: Values) -> set[str]:
    return {labels[0] for _, labels in found if labels}


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("xeon-2s-dram", {"eno1", "ib0"}),
        ("k8s-v2-systemd", {"ens1"}),
        ("libvirt-v2", {"eno1"}),
        ("laptop-psys-mmio", {"wlp0s20f3"}),
    ],
)
def test_ends_of_containers_and_virtual_machines_are_left_out(host: str, shown: set[str]) -> None:
    assert interfaces(said(plugin, open_host(host))) == shown


def test_bytes_and_errors() -> None:
    before, after = said_at_both_moments(plugin, open_host("k8s-v2-systemd"))
    errors = said(plugin, open_host("k8s-v2-systemd"), errors=True)

    assert before["kwhere_node_network_receive_bytes_total", ("ens1",)] == 9_000_000
    assert after["kwhere_node_network_receive_bytes_total", ("ens1",)] == 19_000_000
    assert after["kwhere_node_network_transmit_bytes_total", ("ens1",)] == 8_000_000
    assert errors["kwhere_node_network_receive_errors_total", ("ens1",)] == 1
    assert not [name for name, _ in after if "errors" in name]


def test_everything_on_request() -> None:
    found = said(plugin, open_host("xeon-2s-dram"), exclude="", limit=3)

    assert interfaces(found) == {"docker0", "eno1", "ib0"}
    assert found["kwhere_node_network_interfaces", ()] == 5


def test_an_agent_in_a_pod_tells_the_node_s_interfaces_and_not_its_own(tmp_path: Path) -> None:
    shutil.copytree(HOSTS / "k8s-v2-systemd" / "proc" / "0", tmp_path / "proc")
    (tmp_path / "proc" / "1" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "dev").rename(tmp_path / "proc" / "1" / "net" / "dev")
    (tmp_path / "proc" / "net" / "dev").write_text("eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")

    found = said(plugin, HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup"))

    assert interfaces(found) == {"ens1"}
