"""Real jobs of a real SLURM, an agent and a server: what sacct says is what kwhere says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.slurm_site import SlurmSite, burn, check_account, running_site, srun_burn, used
from tests.slurm_cluster import NODES

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_rest import SlurmRest
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings

pytestmark = [pytest.mark.slow, pytest.mark.managers, pytest.mark.service("slurm")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    directory = tmp_path_factory.mktemp("roles")
    with running_site(directory, f"sqlite:///{directory}/account.db") as made:
        yield made


def test_a_job_has_its_owner_and_the_cpu_seconds_of_sacct(world: SlurmSite) -> None:
    name = "solve|it now"
    options = ("-n1", "-c2", "-w", "n1", "--gres=gpu:1", "--mem=300M", "--comment", "a|b\nc", "-J", name)
    job = world.slurm.sbatch("kwalice", *options, script=burn(8))
    world.slurm.wait_job(job, ["COMPLETED"], 120)

    check_account(world, job, name, "kwalice", "proj1")

    unit = world.unit(job)
    assert (unit["queue"], unit["group"]) == ("main", "kwalice")
    assert (unit["allocation"]["cpus"], unit["allocation"]["memory_bytes"]) == (2, 300 * 1024**2)
    assert unit["allocation"]["gpus"] == {"a100": 1}
    assert unit["submitted_at"] <= unit["started_at"] < unit["ended_at"]
    assert unit["labels"]["comment"] == "a|b\nc"
    fields = "unit,user,project,name,state,queue"
    assert world.cli("units", "-u", "kwalice", "--format", fields).count(name) == 1


def test_a_job_that_waits_stands_in_the_queue_and_runs_out_of_time(world: SlurmSite) -> None:
    job = world.slurm.sbatch("kwbob", "-n1", "-t", "1", "-H", "--gpus=2", "-J", "held", script="sleep 600")
    world.roles.wait_until(lambda: [each["unit"] for each in world.get("/queue")["items"]] == [job])
    (waits,) = world.get("/queue")["items"]
    assert (waits["user"], waits["project"], waits["reason"], waits["name"]) == (
        *("kwbob", "proj2"),
        "JobHeldUser",
        "held",
    )
    assert world.unit(job) == {}

    world.slurm.run("scontrol", "release", job)

    assert world.wait_begun(job)["allocation"]["gpus"] == {"a100": 2}
    world.roles.wait_until(lambda: world.get("/queue")["items"] == [])
    world.slurm.wait_job(job, ["TIMEOUT"], 150)
    unit = world.wait_state(job, "timeout")
    assert unit["elapsed_seconds"] >= 60


def test_a_heterogeneous_job_has_components_that_add_up(world: SlurmSite) -> None:
    script = f"{srun_burn(3).replace('srun ', 'srun --het-group=0,1 ')}\nsleep 3"
    words = ("-n1", "--mem=100M", "-w", "n1", "-J", "both", ":", "-n1", "--mem=200M", "-w", "n2")
    job = world.slurm.sbatch("kwalice", *words, script=script)
    world.slurm.wait_job(job, ["COMPLETED"], 120)
    second = str(int(job) + 1)

    parts = [world.wait_state(each, "completed") for each in (job, second)]

    assert [part["labels"]["job"] for part in parts] == [f"{job}+0", f"{job}+1"]
    assert [part["allocation"]["memory_bytes"] for part in parts] == [100 * 1024**2, 200 * 1024**2]
    told = world.get(f"/units?job={job}")["items"]
    assert {item["unit"] for item in told} == {job, second}
    sacct = [float(world.sacct_cpu_seconds(f"{job}+{at}")) for at in range(2)]
    assert sum(map(used, parts)) == pytest.approx(sum(sacct), rel=0.02)
    whole = world.get(f"/units/lab/slurm/{job}/parts")["unit"]
    assert whole["energy_joules_total"] == pytest.approx(sum(part["energy_joules_total"] for part in parts))
    assert used(whole) == pytest.approx(sum(map(used, parts)))
    # The second's tasks bear the first's id, and its node knows all the same what it was given.
    assert all(run["cpu_efficiency_ratio"] is not None for part in parts for run in part["node_runs"])
    assert json.loads(world.cli("unit", job, "--json"))["energy_joules_total"] == whole["energy_joules_total"]
    assert "2 components together" in world.page(f"/units/lab/slurm/{second}")


def test_a_job_on_two_nodes_an_array_and_a_cancelled_one(world: SlurmSite) -> None:
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
    whole = world.get(f"/units/lab/slurm/{array}/parts")
    assert (whole["kind"], whole["states"]) == ("array", {"completed": 2})
    assert "2 completed" in world.cli("unit", array)


def test_a_requeued_job_has_two_runs(world: SlurmSite) -> None:
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

    world.wait_state(job, "completed")
    whole = world.get(f"/units/lab/slurm/{job}/runs")
    assert [run["state"] for run in whole["parts"]] == ["requeued", "completed"]
    energies = [run["energy_joules_total"] for run in whole["parts"]]
    assert all(energies)
    assert whole["unit"]["energy_joules_total"] == pytest.approx(sum(energies))
    assert "Runs: 2, added up" in world.cli("unit", job)


def test_a_resized_job_is_one_run_case_users_23(world: SlurmSite) -> None:
    script = f"{srun_burn(1)}\nsleep 600"
    job = world.slurm.sbatch("kwbob", "-N2", "-n2", "--ntasks-per-node=1", "-J", "shrinks", script=script)
    world.slurm.wait_job(job, ["RUNNING"])
    world.roles.wait_until(lambda: len(world.unit(job).get("node_runs", ())) == 2)
    before = world.unit(job)

    world.slurm.run("scontrol", "update", f"JobId={job}", "NumNodes=1")
    world.roles.wait_until(lambda: world.unit(job)["labels"].get("resized") == "1")
    world.slurm.run("scancel", job)

    unit = world.wait_state(job, "cancelled")
    whole = world.get(f"/units/lab/slurm/{job}/runs")
    assert [run["run"] for run in whole["parts"]] == [before["run"]]
    assert {run["run"].rpartition(".")[2] for run in unit["node_runs"]} == {"n1", "n2"}
    assert min(run["cpu_seconds"] for run in unit["node_runs"]) > 0.9
    assert used(unit) == pytest.approx(sum(run["cpu_seconds"] for run in unit["node_runs"]))
    assert "unverified" not in unit["quality"]
    assert 1 < unit["allocation"]["cpus"] < 2
    assert unit["submitted_at"] == before["submitted_at"]


def test_slurmrestd_says_what_the_commands_say(world: SlurmSite) -> None:
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
