from pathlib import Path

import pytest
from tests.recorded_hosts import build_collector, open_host, said, said_at_both_moments

from kwhere.collectors.pressure import plugin
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS

STALLED = "kwhere_node_pressure_seconds_total"


def test_stall_time_in_seconds() -> None:
    before, after = said_at_both_moments(plugin, open_host("k8s-v2-systemd"))

    assert before == {
        (STALLED, ("cpu", "some")): 5.0,
        (STALLED, ("memory", "some")): 0.001,
        (STALLED, ("memory", "full")): 0.0005,
        (STALLED, ("io", "some")): 0.07,
        (STALLED, ("io", "full")): 0.035,
    }
    assert after[STALLED, ("cpu", "some")] == 5.4


def test_one_resource_is_enough(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "irq").write_text("full avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n")

    assert said(plugin, HostFS(tmp_path, tmp_path, tmp_path)) == {(STALLED, ("irq", "full")): 1.5}


def test_a_kernel_without_pressure_has_no_collector() -> None:
    with pytest.raises(Unavailable) as caught:
        build_collector(plugin, open_host("vm-no-meter"))

    assert caught.value.reason == "absent"
