"""A real SLURM, an agent on its host and a server beside it: real jobs, and what API, page and command line say."""

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.slurm_cluster import NODES, SlurmCluster, running_cluster

from kwhere.resource_managers.slurm_words import parse_duration

TOKEN = "agent-token-of-the-tests-0123456789"
PYTHON = "/usr/bin/python3"
_BURN = "import time\nwhile time.process_time() < {seconds}: pass"


def burn(seconds: float, times: int = 2, idle: float = 3) -> str:
    """Return a script that uses so many CPU seconds `times` over, then idles until every reader has seen it."""
    one = f"{PYTHON} -c '{_BURN.format(seconds=seconds)}' &"
    return "\n".join([*[one] * times, "wait", f"sleep {idle}"])


def srun_burn(seconds: float) -> str:
    """Return a command that uses so many CPU seconds in each task of a step."""
    return f"srun {PYTHON} -c '{_BURN.format(seconds=seconds)}'"


class SlurmSite:
    """The cluster, the roles and their addresses."""

    def __init__(
        self,
        slurm: SlurmCluster,
        directory: Path,
        database_url: str,
        units: dict[str, object] | None = None,
        manager: dict[str, object] | None = None,
    ) -> None:
        """`units` are settings of the agent's, `manager` further ones of the server's entry for SLURM."""
        self.slurm = slurm
        self.roles = RoleProcesses(directory)
        self.agent_host, self.server_host = free_address(), free_address()
        self.roles.state.mkdir(0o700)
        token = self.roles.secret("agent/ledger-token", TOKEN + "\n")
        self.roles.configure(
            "agent",
            {
                "agent": {"slot_seconds": 1, "interval_seconds": 0.2, "node": "vm1", "node_names": list(NODES)},
                "units": units or {},
                "web": {"listen_addresses": [self.agent_host]},
            },
        )
        target = {"name": "g", "cluster": "lab", "urls": [f"http://{self.agent_host}"], "client": {"token_file": token}}
        entry = {
            "manager": "slurm",
            "cluster": "lab",
            "conf_file": slurm.environment["SLURM_CONF"],
            "interval_seconds": 1,
            "backfill_days": 0.1,
            **(manager or {}),
        }
        self.roles.configure(
            "server",
            {
                "server": {"listen": self.server_host, "pull_seconds": 0.5, "targets": [target]},
                "database": {"url": database_url},
                "resource_managers": [entry],
            },
        )
        for role in ("agent", "server"):
            self.roles.start(role)
        self.roles.wait_until(lambda: self.get("/nodes")["items"][0]["state"] == "up")

    def get(self, path: str) -> Any:
        return json.loads(self.page(f"/api/v1{path}"))

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.server_host}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def unit(self, job: str) -> dict[str, Any]:
        """Return a job's newest run, {} while there is none."""
        try:
            found: dict[str, Any] = self.get(f"/units/lab/slurm/{job}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}
        return found

    def wait_begun(self, job: str) -> dict[str, Any]:
        """Return a job's unit once its manager and an agent have told of it."""
        self.roles.wait_until(lambda: self.unit(job).get("queue") == "main" and bool(self.unit(job)["node_runs"]))
        return self.unit(job)

    def wait_state(self, job: str, state: str) -> dict[str, Any]:
        """Return the job's unit once it has that state, all of its slots included."""
        self.roles.wait_until(lambda: self.unit(job).get("state") == state)
        seen = -1.0

        def is_settled() -> bool:
            nonlocal seen
            item = self.unit(job)
            before, seen = seen, item["energy_joules_total"]
            return before == seen and bool(item["node_runs"]) and all(run["ended_at"] for run in item["node_runs"])

        self.roles.wait_until(is_settled)
        return self.unit(job)

    def cli(self, *words: str) -> str:
        command = [sys.executable, "-m", "kwhere", *words, "--server", f"http://{self.server_host}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def sacct_cpu_seconds(self, job: str) -> float:
        # The first line is the job, the sum of its steps; with -X it would be 0.
        said = self.slurm.run("sacct", "-n", "-P", "-o", "TotalCPU", "-j", job).split()[0]
        return parse_duration(said) or 0.0


def used(unit: dict[str, Any]) -> float:
    """Return a unit's CPU seconds."""
    return float(unit["cpu_seconds"]["user"] + unit["cpu_seconds"]["system"])


@contextmanager
def running_site(directory: Path, database_url: str) -> Iterator[SlurmSite]:
    """Yield a site; all of it is taken down at the end."""
    # SLURM's users must be able to walk in, which the directories of pytest do not allow.
    with tempfile.TemporaryDirectory(prefix="slurm") as place, running_cluster(Path(place)) as slurm:
        made = SlurmSite(slurm, directory, database_url)
        try:
            yield made
        finally:
            made.roles.kill_all()


def check_account(site: SlurmSite, job: str, name: str, user: str, account: str) -> None:
    """Check that API, page and command line show what sacct says of a completed job, and its energy."""
    unit = site.wait_state(job, "completed")
    site.roles.wait_until(lambda: site.sacct_cpu_seconds(job) > 10)  # a step is written after its job
    expected = site.sacct_cpu_seconds(job)
    assert used(unit) == pytest.approx(expected, rel=0.01), (used(unit), expected)
    assert (unit["user"], unit["project"], unit["name"]) == (user, account, name)
    assert unit["energy_joules_total"] > 0
    assert not {"unverified", "lost", "unreported"} & set(unit["quality"])
    said = json.loads(site.cli("unit", job, "--json"))
    assert used(said) == used(unit)
    assert (said["user"], said["project"]) == (user, account)
    assert said["energy_joules_total"] == unit["energy_joules_total"]
    (row,) = json.loads(site.cli("units", "-u", user, "-j", job, "--json"))["items"]
    assert row["energy_joules_total"] == unit["energy_joules_total"]
    page = site.page(f"/units/lab/slurm/{job}")
    for word in (name, user, account):
        assert word in page
