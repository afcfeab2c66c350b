from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.recorded_hosts import build_collector, open_host, said

from kwhere.collectors.frequency import plugin
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS

HERTZ = "kwhere_node_cpu_frequency_hertz"
GOVERNOR = "kwhere_node_cpu_governor_info"


def test_frequencies_per_socket() -> None:
    found = said(plugin, open_host("xeon-2s-dram"))

    # socket 1: CPUs 1, 3, … 15 at 2.4, 2.5, … 3.1 GHz
    assert found == {
        (HERTZ, ("0", "min")): 3_200_000_000,
        (HERTZ, ("0", "mean")): 3_200_000_000,
        (HERTZ, ("0", "max")): 3_200_000_000,
        (GOVERNOR, ("0", "performance")): 1,
        (HERTZ, ("1", "min")): 2_400_000_000,
        (HERTZ, ("1", "mean")): 2_750_000_000,
        (HERTZ, ("1", "max")): 3_100_000_000,
        (GOVERNOR, ("1", "performance")): 1,
    }


def test_each_cpu_on_request() -> None:
    found = said(plugin, open_host("laptop-psys-mmio"), per_cpu=True)

    assert found["kwhere_node_core_frequency_hertz", ("7",)] == 2_500_000_000
    assert found[GOVERNOR, ("0", "powersave")] == 1


def test_a_virtual_machine_has_frequencies_and_no_governor() -> None:
    found = said(plugin, open_host("vm-no-meter"))

    assert found[HERTZ, ("0", "mean")] == 2_000_000_000
    assert not [name for name, _ in found if name == GOVERNOR]


def test_cpus_that_do_not_tell_are_no_zero(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 4\ncpu0 1 2 3 4\n")
    collector = build_collector(plugin, HostFS(tmp_path, tmp_path, tmp_path))

    with pytest.raises(Unavailable):
        list(collector.collect())
    collector.close()


def test_looking_too_often_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 10"):
        plugin.settings_class(interval_seconds=1)
