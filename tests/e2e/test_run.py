"""`kwhere run` on the real kernel: exit codes, signals, CPU seconds that agree with the kernel's own."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KWHERE = [sys.executable, "-m", "kwhere"]
BURN = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def run(*command: str, json_report: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `kwhere run` and return it finished."""
    flags = ["--json"] if json_report else []
    return subprocess.run([*KWHERE, "run", *flags, "--", *command], capture_output=True, text=True, check=False, **more)


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the report: the last line of stdout."""
    report = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(report, dict)
    return report


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command-anywhere"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_the_exit_code_is_passed_on(command: list[str], code: int) -> None:
    done = run(*command)

    assert done.returncode == code, done.stderr
    assert report_of(done)["exit_code"] == code


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-command-anywhere", "kwhere: no-such-command-anywhere: command not found\n"),
        ("/etc/passwd", "kwhere: /etc/passwd: Permission denied\n"),
    ],
)
def test_a_command_that_never_began_has_no_report(command: str, said: str) -> None:
    assert run(command, json_report=False).stderr == said


def test_a_command_that_ends_with_127_itself_has_one() -> None:
    assert "energy" in run("sh", "-c", "exit 127", json_report=False).stderr


def test_stdout_and_stdin_are_the_commands_own() -> None:
    done = run("cat", json_report=False, input="hello\n")

    assert done.stdout == "hello\n"
    assert "energy" in done.stderr


def test_options_after_the_command_are_the_commands() -> None:
    done = run("sh", "-c", "echo --json $0", "--help", json_report=False)

    assert done.stdout == "--json --help\n"


def test_a_report_without_a_zone_has_no_grams(tmp_path: Path) -> None:
    report = report_of(run("true", env={**os.environ, "KWHERE_STATE": str(tmp_path)}))

    assert report["emissions_grams"] is None
    assert report["zone"] is None
    assert report["method"] in ("counter", "integrated", "modelled")


def test_a_zone_gives_grams(tmp_path: Path) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text("site: {zone: FR}\n")

    report = report_of(
        run(sys.executable, "-c", BURN.format(seconds=0.3), env={**os.environ, "KWHERE_CONFIG_FILE": str(file)})
    )

    assert report["zone"] == "FR"
    assert report["emissions_grams"] == pytest.approx(report["energy_joules"]["total"] * 44.18 / 3.6e6, rel=0.01)


def test_an_unknown_key_stops_it_before_the_command(tmp_path: Path) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text("agent: {intervall_seconds: 1}\n")

    done = run("touch", str(tmp_path / "ran"), env={**os.environ, "KWHERE_CONFIG_FILE": str(file)})

    assert done.returncode == 2
    assert "agent.intervall_seconds: unknown key (did you mean interval_seconds?)" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "script",
    [
        "{burn}",
        # a child that ends early, a grandchild whose parent ends first (an orphan), and many short processes
        "{burn} & {burn} & wait",
        "(({burn}; touch {flag}) & sleep 0.05); until [ -e {flag} ]; do sleep 0.05; done",
        "for i in 1 2 3 4 5 6 7 8; do sh -c 'true'; done; {burn}",
    ],
)
def test_cpu_seconds_agree_with_the_kernel(script: str, tmp_path: Path) -> None:
    burn = f"{sys.executable} -c '{BURN.format(seconds=0.5)}'"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)

    report = report_of(run("bash", "-c", script.format(burn=burn, flag=tmp_path / "done")))

    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    everything = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    accounted = report["cpu_seconds"]["user"] + report["cpu_seconds"]["system"]
    burns = script.count("{burn}")
    assert burns * 0.5 * 0.99 <= accounted <= everything
    assert report["energy_joules"]["cpu"]["dynamic"] > 0


@pytest.mark.slow
@pytest.mark.service("stress-ng", "cgroups")
def test_a_stressor_is_accounted_within_one_percent_of_the_kernels_count() -> None:
    own = "/sys/fs/cgroup/cpuacct$(sed -n 's/^[0-9]*:cpuacct://p' /proc/self/cgroup)"
    report = run("sh", "-c", f"stress-ng --cpu 1 -t 5 2>&1; ls -d {own}; cat {own}/cpuacct.usage", json_report=True)
    directory, usage_ns = report.stdout.split("\n\n{")[0].splitlines()[-2:]
    accounted = report_of(report)["cpu_seconds"]

    assert "/kwhere-run-" in directory
    assert not Path(directory).exists()  # it leaves nothing behind
    assert accounted["user"] + accounted["system"] == pytest.approx(int(usage_ns) / 1e9, rel=0.01)
    assert report_of(report)["memory_peak_bytes"] > 1 << 20


def test_a_signal_reaches_the_command_and_the_report_still_comes() -> None:
    process = subprocess.Popen(
        [*KWHERE, "run", "--json", "--", "sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)

    assert process.returncode == 5
    assert json.loads(out.splitlines()[-1])["exit_code"] == 5


@pytest.mark.parametrize("text", ["", "hi", "hi\n", '{"unit": "an object of its own"}'])
def test_the_last_line_is_the_documented_object_whatever_the_command_printed(text: str) -> None:
    done = run("printf", "%s", text)
    report = report_of(done)

    assert done.stdout.startswith(text)
    assert report.keys() >= {
        *("unit", "exit_code", "wall_seconds", "cpu_seconds", "memory_peak_bytes", "energy_joules"),
        *("emissions_grams", "method", "zone"),
    }
    assert report["cpu_seconds"].keys() == {"user", "system"}
    assert report["energy_joules"].keys() == {"cpu", "dram", "gpu", "other", "total"}
    assert all(report["energy_joules"][part].keys() == {"dynamic", "idle"} for part in ("cpu", "dram", "gpu", "other"))
    assert report["energy_joules"]["gpu"] == {"dynamic": None, "idle": None}
