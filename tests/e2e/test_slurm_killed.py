"""Each part of a site killed with -9 in the middle of a job: once it is back, nothing of the job is lost."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.slurm_site import SlurmSite, burn, check_account, running_site
from tests.postgresql import PostgresServer

pytestmark = [
    *(pytest.mark.slow, pytest.mark.managers, pytest.mark.service("slurm")),
    pytest.mark.service("postgresql"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def site(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    with running_site(tmp_path_factory.mktemp("roles"), postgres.new_database("account")) as made:
        yield made


def check_nothing_is_lost(site: SlurmSite, name: str, kill: Callable[[], None], mend: Callable[[], None]) -> None:
    """Run a job that works, rests and works again; kill something in its rest, and mend it a little later."""
    script = f"{burn(3, idle=12)}\n{burn(3)}"
    job = site.slurm.sbatch("kwalice", "-n1", "-c2", "-w", "n1", "-J", name, script=script)
    site.slurm.wait_job(job, ["RUNNING"], 120)
    site.slurm.wait_saved(job)
    site.wait_begun(job)

    kill()
    time.sleep(5)
    mend()

    site.slurm.wait_job(job, ["COMPLETED"], 300)
    check_account(site, job, name, "kwalice", "proj1")
    (node,) = site.get("/nodes")["items"]
    assert (node["lost_records"], node["quarantined_slots"], node["stopped"]) == (0, 0, None)


def test_slurmdbd(site: SlurmSite) -> None:
    check_nothing_is_lost(
        site, "dbd dies", lambda: site.slurm.kill("slurmdbd", signal.SIGKILL), site.slurm.start_slurmdbd
    )


def test_slurmctld(site: SlurmSite) -> None:
    check_nothing_is_lost(
        site, "ctld dies", lambda: site.slurm.kill("slurmctld", signal.SIGKILL), site.slurm.start_slurmctld
    )


def test_the_agent(site: SlurmSite) -> None:
    check_nothing_is_lost(
        site, "agent dies", lambda: site.roles.end("agent", signal.SIGKILL), lambda: site.roles.start("agent")
    )


def test_the_server(site: SlurmSite) -> None:
    check_nothing_is_lost(
        site, "server dies", lambda: site.roles.end("server", signal.SIGKILL), lambda: site.roles.start("server")
    )


def test_the_database(site: SlurmSite, postgres: PostgresServer) -> None:
    check_nothing_is_lost(site, "database dies", postgres.kill, postgres.start)


def test_slurmdbd_while_jobs_begin_and_end(site: SlurmSite) -> None:
    site.slurm.kill("slurmdbd", signal.SIGKILL)
    job = site.slurm.sbatch("kwbob", "-n1", "-c2", "-w", "n2", "-J", "while it was away", script=burn(6, idle=1))
    # The agent tells of a job that its manager does not.
    site.roles.wait_until(lambda: site.unit(job) != {})
    assert site.unit(job)["queue"] is None
    site.roles.wait_until(lambda: "COMPLETED" in site.slurm.run("scontrol", "show", "job", job))
    site.roles.end("server", signal.SIGKILL)
    site.roles.start("server")
    site.slurm.start_slurmdbd()
    site.slurm.wait_job(job, ["COMPLETED"], 300)

    check_account(site, job, "while it was away", "kwbob", "proj2")
