"""Real jobs of a real SLURM, an agent and a server: what sacct says is what kwhere says."""

import json
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.slurm_cluster import NODES, SlurmCluster, running_cluster

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_rest import SlurmRest, SlurmRestSettings
from kwhere.resource_managers.slurm_words import parse_duration

pytestmark = [pytest.mark.slow, pytest.mark.managers, pytest.mark.service("slurm")]

TOKEN = "agent-token-of-the-tests-0123456789"
BURN = """\
{python} -c 'import time
while time.process_time() < {seconds}: pass' &
{python} -c 'import time
while time.process_time() < {seconds}: pass' &
wait
sleep 3"""


def burn(seconds: float) -> str:
    """Return a script that uses so many CPU seconds twice, then idles until every reader has seen it."""
    return BURN.format(python="/usr/bin/python3", seconds=seconds)


class World:
    """A SLURM with an agent on its host and a server beside it."""

    def __init__(self, slurm: SlurmCluster, directory: Path) -> None:
        self.slurm = slurm
        self.roles = RoleProcesses(directory)
        self.agent_host, self.server_host = free_address(), free_address()
        self.roles.state.mkdir(0o700)
        token = self.roles.secret("agent/ledger-token", TOKEN + "\n")
        self.roles.configure(
            "agent",
            {
                "agent": {"slot_seconds": 1, "interval_seconds": 0.2, "node": "vm1", "node_names": list(NODES)},
                "web": {"listen_addresses": [self.agent_host]},
            },
        )
        target = {"name": "g", "cluster": "lab", "urls": [f"http://{self.agent_host}"], "client": {"token_file": token}}
        manager = {
            "manager": "slurm",
            "cluster": "lab",
            "conf_file": slurm.environment["SLURM_CONF"],
            "interval_seconds": 1,
            "backfill_days": 0.1,
        }
        self.roles.configure(
            "server",
            {
                "server": {"listen": self.server_host, "pull_seconds": 0.5, "targets": [target]},
                "database": {"url": f"sqlite:///{directory}/account.db"},
                "resource_managers": [manager],
            },
        )
        for role in ("agent", "server"):
            self.roles.start(role)
        self.roles.wait_until(lambda: self.get("/nodes")["items"][0]["state"] == "up")

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.server_host}/api/v1{path}", timeout=10) as answer:
            return json.load(answer)

    def unit(self, job: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self.get(f"/units/lab/slurm/{job}")
        except urllib.error.HTTPError:
            return {}
        return found

    def wait_state(self, job: str, state: str) -> dict[str, Any]:
        """Return the job's unit once it has that state, all of its slots included."""
        self.roles.wait_until(lambda: self.unit(job).get("state") == state)
        seen = -1.0

        def is_settled() -> bool:
            nonlocal seen
            item = self.unit(job)
            before, seen = seen, item["energy_joules_total"]
            return before == seen and all(run["ended_at"] for run in item["node_runs"])

        self.roles.wait_until(is_settled)
        return self.unit(job)

    def cli(self, *words: str) -> str:
        command = [sys.executable, "-m", "kwhere", *words, "--server", f"http://{self.server_host}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def sacct_cpu_seconds(self, job: str) -> float:
        # The first line is the job, the sum of its steps; with -X it would be 0.
        said = self.slurm.run("sacct", "-n", "-P", "-o", "TotalCPU", "-j", job).split()[0]
        return parse_duration(said) or 0.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    # SLURM's users must be able to walk in, which the directories of pytest do not allow.
    with tempfile.TemporaryDirectory(prefix="slurm") as place, running_cluster(Path(place)) as slurm:
        made = World(slurm, tmp_path_factory.mktemp("roles"))
        try:
            yield made
        finally:
            made.roles.kill_all()


def test_a_job_has_its_owner_and_the_cpu_seconds_of_sacct(world: World) -> None:
    name = "solve|it now"
    options = ("-n1", "-c2", "-w", "n1", "--gres=gpu:1", "--mem=300M", "--comment", "a|b\nc", "-J", name)
    job = world.slurm.sbatch("kwalice", *options, script=burn(8))
    world.slurm.wait_job(job, ["COMPLETED"], 120)

    unit = world.wait_state(job, "completed")

    used = unit["cpu_seconds"]["user"] + unit["cpu_seconds"]["system"]
    assert used == pytest.approx(world.sacct_cpu_seconds(job), rel=0.01)
    assert (unit["user"], unit["project"], unit["name"]) == ("kwalice", "proj1", name)
    assert (unit["queue"], unit["group"]) == ("main", "kwalice")
    assert "unverified" not in unit["quality"]
    assert (unit["allocation"]["cpus"], unit["allocation"]["memory_bytes"]) == (2, 300 * 1024**2)
    assert unit["allocation"]["gpus"] == {"a100": 1}
    assert unit["energy_joules_total"] > 0
    assert unit["submitted_at"] <= unit["started_at"] < unit["ended_at"]
    assert unit["labels"]["comment"] == "a|b\nc"
    fields = "unit,user,project,name,state,queue"
    assert world.cli("units", "-u", "kwalice", "--format", fields).count(name) == 1
    assert name in world.cli("unit", job)


def test_a_job_on_two_nodes_an_array_and_a_cancelled_one(world: World) -> None:
    two = world.slurm.sbatch("kwbob", "-N2", "-n2", "-J", "two", script="srun sh -c 'sleep 4'")
    array = world.slurm.sbatch("kwbob", "-n1", "--array=1-2", "-J", "array", script="sleep 4")
    long = world.slurm.sbatch("kwalice", "-n1", "-J", "long", script="sleep 600")
    world.slurm.wait_job(long, ["RUNNING"])
    world.roles.wait_until(lambda: world.unit(long).get("state") == "running" and world.unit(long)["user"] == "kwalice")
    world.slurm.run("scancel", long)

    assert world.wait_state(long, "cancelled")["ended_at"] is not None
    unit = world.wait_state(two, "completed")
    assert (unit["user"], unit["nodes"]) == ("kwbob", ["vm1"])
    assert {run["run"].rpartition(".")[2] for run in unit["node_runs"]} == {"n1", "n2"}
    world.slurm.wait_job(f"{array}_2", ["COMPLETED"])
    shown = world.cli("units", "--csv", "-q", f"{array}_", "--format", "unit,user,name,state")
    assert shown.count("kwbob,array,completed") == 2


def test_a_requeued_job_has_two_runs(world: World) -> None:
    job = world.slurm.sbatch("kwbob", "-n1", "--requeue", "-J", "again", script="sleep 5")
    world.slurm.wait_job(job, ["RUNNING"])
    world.roles.wait_until(lambda: world.unit(job).get("queue") == "main")
    first = world.unit(job)["run"]

    world.slurm.run("scontrol", "requeue", job)

    # SLURM lets a requeued job wait for two minutes.
    world.slurm.wait_job(job, ["PENDING"])
    world.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    world.roles.wait_until(lambda: world.unit(job)["run"] != first and world.unit(job)["queue"] == "main")
    world.roles.wait_until(lambda: world.get(f"/units/lab/slurm/{job}?run={first}")["state"] == "requeued")


def test_slurmdbd_and_then_the_server_killed_lose_nothing(world: World) -> None:
    world.slurm.kill("slurmdbd")
    job = world.slurm.sbatch("kwalice", "-n1", "-c2", "-w", "n2", "-J", "while it was away", script=burn(3))
    world.roles.wait_until(lambda: world.unit(job) != {})
    assert world.unit(job)["run"].startswith(f"{job}@")
    world.roles.end("server", signal.SIGKILL)
    world.roles.start("server")
    world.slurm.start_slurmdbd()
    world.slurm.wait_job(job, ["COMPLETED"], 120)

    unit = world.wait_state(job, "completed")

    used = unit["cpu_seconds"]["user"] + unit["cpu_seconds"]["system"]
    assert (unit["user"], unit["name"]) == ("kwalice", "while it was away")
    assert used == pytest.approx(world.sacct_cpu_seconds(job), rel=0.02)


def test_slurmrestd_says_what_the_commands_say(world: World) -> None:
    job = world.slurm.sbatch("kwalice", "-n1", "--gres=gpu:2", "-J", "a|b", script="sleep 1")
    world.slurm.wait_job(job, ["COMPLETED"])
    world.slurm.start_slurmrestd()
    clock = SystemClock()
    rest = SlurmRestSettings(url=world.slurm.rest_url, version="v0.0.38", key_file=world.slurm.root / "etc/jwt.key")
    by_rest = SlurmRest(rest, "lab", None, (), clock)
    conf = Path(world.slurm.environment["SLURM_CONF"])
    by_command = Slurm(SlurmSettings(manager="slurm", cluster="lab", conf_file=conf))
    now = datetime.now(UTC)
    span = Span(now - timedelta(hours=1), now)

    one, other = ({u.run: u for u in source.fetch_units(span)} for source in (by_command, by_rest))

    assert one.keys() == other.keys()
    for run, unit in one.items():
        # How a job ended is told as 0:0 by one, as a number by the other.
        assert replace(unit, tags={}) == replace(other[run], tags={})
    assert by_rest.fetch_accounts() == by_command.fetch_accounts()
    names = [[node.name for node in source.fetch_nodes()] for source in (by_rest, by_command)]
    assert names == [list(NODES)] * 2
    by_rest.close()
