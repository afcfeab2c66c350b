"""`kwhere agent --once` in a process of its own: stdout is an exposition and nothing else."""

import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.hosts.build import HOSTS


def once(host: str, *flags: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    place = HOSTS / host
    return subprocess.run(
        [
            *(sys.executable, "-m", "kwhere", "agent", "--once", *flags),
            *("--path.procfs", place / "proc", "--path.sysfs", place / "sys", "--path.cgroupfs", place / "cgroup"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KWHERE_CONFIG_FILE": os.devnull, **environ},
    )


def names(output: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(output) for sample in family.samples}


def test_stdout_is_the_exposition_and_the_log_goes_to_stderr() -> None:
    done = once("xeon-2s-dram")

    assert done.returncode == 0
    assert "kwhere_node_energy_joules_total" in names(done.stdout)
    assert "kwhere_config_info" in names(done.stdout)
    assert "collector has nothing to read" in done.stderr  # no journal here


def test_a_collector_is_left_out_by_flag_and_by_environment() -> None:
    by_flag = once("xeon-2s-dram", "--no-collector.load", "--disk.limit", "1")
    by_environment = once("xeon-2s-dram", KWHERE_COLLECTOR_LOAD="false")

    assert by_flag.returncode == by_environment.returncode == 0
    assert "kwhere_node_load1" not in names(by_flag.stdout) | names(by_environment.stdout)
    assert "kwhere_node_cpus" in names(by_environment.stdout)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("KWHERE_DISK_LIMIT", "many", "collector.disk.limit"),
        ("KWHERE_COLLECTOR_DISK", "perhaps", "collector.disk.enabled: expected true or false, found 'perhaps'"),
        ("KWHERE_DISK_LIMIT", "[", "KWHERE_DISK_LIMIT: expected a YAML value, found '['"),
    ],
)
def test_a_wrong_collector_variable_is_exit_code_2(variable: str, value: str, told: str) -> None:
    done = once("xeon-2s-dram", **{variable: value})

    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""
