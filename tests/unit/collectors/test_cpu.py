from pathlib import Path

import pytest
from tests.recorded_hosts import build_collector, open_host, said, said_at_both_moments, values

from kwhere.collectors.cpu import plugin
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS

SECONDS = "kwhere_node_cpu_seconds_total"


def test_modes_and_cpus_of_a_host() -> None:
    found = said(plugin, open_host("vm-no-meter"))

    # four CPUs: 100000 + 100 n user ticks, 20000 + 10 n system, 700 steal
    assert found[SECONDS, ("user",)] == 4006.0
    assert found[SECONDS, ("system",)] == 800.6
    assert found[SECONDS, ("steal",)] == 28.0
    assert found["kwhere_node_cpus", ()] == 4
    assert len(found) == 9


def test_ten_seconds_of_work() -> None:
    before, after = said_at_both_moments(plugin, open_host("vm-no-meter"))

    grown = {labels[0]: after[name, labels] - before[name, labels] for name, labels in before if name == SECONDS}

    assert grown["user"] == pytest.approx(15.1)
    assert grown["steal"] == pytest.approx(1.1)
    assert sum(grown.values()) == pytest.approx(40.0)


def write_stat(root: Path, total: str, cpus: int = 1) -> HostFS:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "stat").write_text(f"cpu  {total}\n" + "".join(f"cpu{n} 1 1 1 1\n" for n in range(cpus)))
    return HostFS(root / "proc", root / "sys", root / "cgroup")


@pytest.mark.parametrize(
    ("before", "after", "iowait_seconds", "idle_seconds"),
    [
        pytest.param("10 0 10 100 50", "10 0 10 101 49", 0.5, 1.01, id="case_energy_a17"),
        pytest.param("10 0 10 100 50", "10 0 10 99 52", 0.52, 1.0, id="idle_goes_back"),
        pytest.param("10 0 10 9000 8000", "10 0 10 20 10", 0.1, 0.2, id="cpus_went_offline"),
    ],
)
def test_a_counter_that_goes_back_a_little_stands_still(
    tmp_path: Path, before: str, after: str, iowait_seconds: float, idle_seconds: float
) -> None:
    collector = build_collector(plugin, write_stat(tmp_path, before))
    values(collector, plugin)
    write_stat(tmp_path, after)

    found = values(collector, plugin)

    assert (found[SECONDS, ("iowait",)], found[SECONDS, ("idle",)]) == (iowait_seconds, idle_seconds)
    collector.close()


def test_without_the_file_there_is_no_collector(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        build_collector(plugin, HostFS(tmp_path, tmp_path, tmp_path))
