"""`kwhere doctor` as it is typed: on recorded hosts, on this machine, for a unit, for targets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result
from tests.fixtures.hosts.build import HOSTS

from kwhere.cli.doctor import doctor

HOST_NAMES = sorted(path.name for path in HOSTS.iterdir() if (path / "proc").is_dir())


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Undo what the command does to logging, for the tests after."""
    yield
    structlog.reset_defaults()


def run(*arguments: str, **environment: str) -> Result:
    """Return what the command answers; its exit code is its return value."""
    return CliRunner().invoke(doctor, arguments, standalone_mode=False, env=environment)


def paths(host: str) -> list[str]:
    """Return the flags that lead to a recorded host."""
    return [f"--path.{area}={HOSTS / host / name}" for area, name in (("procfs", "proc"), ("sysfs", "sys"))] + [
        f"--path.cgroupfs={HOSTS / host / 'cgroup'}"
    ]


def checks_of(result: Result) -> dict[str, dict[str, Any]]:
    """Return the checks of `--json` by name."""
    document = json.loads(result.output)
    assert document.keys() == {"checks"}
    return {check["name"]: check for check in document["checks"]}


@pytest.mark.parametrize("host", HOST_NAMES)
def test_every_recorded_host_is_examined_without_a_fault_of_the_checks(host: str) -> None:
    result = run("--json", *paths(host))

    checks = checks_of(result)
    assert result.return_value in (0, 1)
    assert not [check for check in checks.values() if "could not be checked" in check["found"]]
    assert not {"state", "clock", "agent"} & checks.keys()  # nothing of this machine is told of that one
    assert all(check["state"] in ("ok", "warning", "missing", "failed") for check in checks.values())
    assert all(
        {"name", "state", "found", "why", "command", "undo", "risk"} <= check.keys() for check in checks.values()
    )


@pytest.mark.parametrize("host", HOST_NAMES)
def test_text_of_80_columns_without_colour(host: str) -> None:
    result = run(*paths(host))

    assert max(map(len, result.output.splitlines())) <= 80
    assert "\x1b" not in result.output


def test_a_host_without_a_meter_and_without_a_remedy_is_no_failure() -> None:
    result = run(*paths("vm-no-meter"))

    assert result.return_value == 0
    assert "Nothing to fix" in result.output


def test_this_machine(tmp_path: Path) -> None:
    result = run("--json", "--state", str(tmp_path / "state"), XDG_CONFIG_HOME=str(tmp_path))

    checks = checks_of(result)
    assert {"machine", "energy", "cgroups", "clock", "open_files", "state", "journal", "agent"} <= checks.keys()
    assert checks["journal"]["state"] == "missing"
    assert not [check for check in checks.values() if "could not be checked" in check["found"]]
    assert list(tmp_path.iterdir()) == []


def test_a_unit_of_a_recorded_host() -> None:
    checks = checks_of(run("--json", "--unit", "slurm/1001", *paths("xeon-2s-dram")))

    # by the page of the host: the step is 10 s, and job 1001 used 40 of the CPU seconds of socket 0
    assert checks["unit"]["found"] == "slurm/1001, alive"
    assert "powercap" in checks["energy_cpu"]["found"]
    assert checks["energy_other"]["state"] == "missing"


def test_a_unit_that_is_nowhere() -> None:
    result = run("--unit", "nosuch", *paths("xeon-2s-dram"))

    assert result.return_value == 1
    assert "none alive here" in result.output


def test_targets_that_nobody_answers_at(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text(json.dumps([{"targets": ["127.0.0.1:1"], "labels": {"node": "n1"}}]))

    result = run("--json", "--targets", str(file), "--state", str(tmp_path))

    assert result.return_value == 1
    assert checks_of(result)["127.0.0.1:1"]["found"] == "no answer (refused)"
