"""docs/cluster.md and docs/slurm.md word for word: each block, in order, on a real SLURM that hides jobs of others."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.role_processes import free_address
from tests.e2e.slurm_site import burn
from tests.e2e.tutorial import ROOT, Block, Stage, steps_of
from tests.slurm_cluster import NODES, SlurmCluster, running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.managers, pytest.mark.service("slurm")]

PRIVATE = "PrivateData=accounts,jobs,usage,users\n"
NOTES = Path("/run/kwhere/slurm-jobs")
"""Where `job-note` writes; slurmd would not tell it of another place."""
CLUSTER, SLURM = steps_of("cluster.md"), steps_of("slurm.md")


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as place,
        running_cluster(Path(place), PRIVATE, PRIVATE) as cluster,
    ):
        yield cluster


@pytest.fixture
def stage(slurm: SlurmCluster) -> Iterator[Stage]:
    agent, server = free_address(), free_address()
    conf = slurm.environment["SLURM_CONF"]
    faster = "slot_seconds: 1\n  interval_seconds: 0.2\n  node_names: [" + ", ".join(NODES) + "]"
    with tempfile.TemporaryDirectory(prefix="site") as place:
        names = {
            **{name: f"{place}{name}" for name in ("/etc/kwhere", "/opt/kwhere", "/usr/local/bin/kwhere", "/var/lib")},
            "/etc/systemd/system": f"{place}/units",
            "/etc/slurm/slurm.conf": conf,
            "/etc/slurm/jwt.key": f"{slurm.root}/etc/jwt.key",
            "/etc/slurm/job-note": f"{slurm.root}/job-note",
            "$(hostname -f)": "localhost",
            "0.0.0.0:9810": agent,
            '"n1.cluster.example:9810", "n2.cluster.example:9810"': f'"localhost:{agent.rpartition(":")[2]}"',
            "*.cluster.example": "localhost",
            "slot_seconds: 60": faster,
            "server:\n  targets:": f"server:\n  listen: {server}\n  pull_seconds: 0.5\n  targets:",
            "- manager: slurm\n": f"- manager: slurm\n    conf_file: {conf}\n    interval_seconds: 1\n",
            "admin_comment: {}": "admin_comment: {settle_seconds: 1}",
            "https://slurm.example:6820": slurm.rest_url,
            "v0.0.40": "v0.0.38",
            "alice": "kwalice",
        }
        made = Stage(Path(place), names, {"KWHERE_SERVER": f"http://{server}", "SLURM_CONF": conf})
        before = {*NOTES.glob("*")}
        try:
            yield made
        finally:
            made.end()
            for note in {*NOTES.glob("*")} - before:
                note.unlink(missing_ok=True)


def run_job(slurm: SlurmCluster, stage: Stage, name: str) -> str:
    """Run a job of kwalice to its end; the page's 4242 is this one from now on."""
    job = slurm.sbatch("kwalice", "-n1", "-w", "n1", "-J", name, script=burn(2, times=1))
    slurm.wait_job(job, ["COMPLETED"], 120)
    stage.names["4242"] = job
    return job


def test_each_step_runs_as_it_stands(slurm: SlurmCluster, stage: Stage) -> None:
    for number in "1234":
        stage.follow(*CLUSTER[number])
    (nodes,) = CLUSTER["5"]
    stage.look(nodes, lambda shown: "hpc1" in shown and " up " in shown)

    job = run_job(slurm, stage, "first")
    ask, become_operator = SLURM["1"]
    assert job not in stage.follow(ask)
    stage.follow(become_operator)
    assert re.search(rf"^{job} +kwalice +proj1 +COMPLETED", stage.follow(ask), re.MULTILINE)

    commands, check, rest, versions = SLURM["2"]
    stage.follow(commands, check)
    all_units, of_user, one_unit, waiting = _each_line(SLURM["3"])
    stage.look(
        of_user,
        lambda shown: bool(re.search(rf"^{job} +first +kwalice +proj1 +completed +main +\d", shown, re.MULTILINE)),
    )
    assert job in stage.follow(all_units)
    assert f"Unit: slurm {job}\n" in stage.follow(one_unit)
    held = slurm.sbatch("kwbob", "-n1", "-H", "-J", "held", script="true")
    stage.look(
        waiting, lambda shown: bool(re.search(rf"^{held} +held +kwbob +main +JobHeldUser +0 +–", shown, re.MULTILINE))
    )

    check_slurmrestd(slurm, stage, rest, versions)
    check_nodes(slurm, stage)
    check_comments(slurm, stage)


def check_slurmrestd(slurm: SlurmCluster, stage: Stage, rest: Block, versions: Block) -> None:
    slurm.start_slurmrestd()
    assert "v0.0.38" in stage.follow(versions).split()
    (key,) = re.findall(r"`(install -o kwhere-server .*?)`", (ROOT / "docs/slurm.md").read_text())
    place = "# /etc/kwhere/conf.d/slurm.yaml\n"
    stage.follow(Block("sh", key), Block("yaml", place + rest.text), Block("sh", "systemctl reload kwhere-server\n"))

    job = run_job(slurm, stage, "by rest")

    stage.look(
        _each_line(SLURM["3"])[1], lambda shown: bool(re.search(rf"^{job} +by rest .* completed ", shown, re.MULTILINE))
    )


def check_nodes(slurm: SlurmCluster, stage: Stage) -> None:
    stage.follow(*SLURM["4"])

    job = run_job(slurm, stage, "noted")

    assert [*NOTES.glob(f"{job}.n1.*")]


def check_comments(slurm: SlurmCluster, stage: Stage) -> None:
    stage.follow(*SLURM["5"])
    (shown,) = re.findall(r"^```console\n\$ (sacct .*)\n", (ROOT / "docs/slurm.md").read_text(), re.MULTILINE)

    job = run_job(slurm, stage, "written")

    line = rf"^{job} +kwhere1:kwh=[0-9.e-]+;co2e_g=[0-9.e-]+;cpu_eff=[01]\.\d+;method=\w+ *$"
    stage.look(Block("sh", shown), lambda said: bool(re.search(line, said, re.MULTILINE)))


def _each_line(blocks: list[Block]) -> list[Block]:
    return [Block("sh", f"{line}\n") for block in blocks for line in block.text.splitlines()]
