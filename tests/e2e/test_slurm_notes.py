"""A real SLURM with `job-note` as its prolog and epilog, what is written back into it, and tokens that it prints."""

import signal
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import entries_of
from tests.e2e.slurm_site import SlurmSite, burn, used
from tests.slurm_cluster import CLUSTER, SlurmCluster, running_cluster

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.discovery.slurm_notes import JobNote, find_note
from kwhere.reports.unit_note import parse_note
from kwhere.resource_managers.slurm_rest import SlurmRest
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings

pytestmark = [pytest.mark.slow, pytest.mark.managers, pytest.mark.service("slurm")]

SCRIPT = Path(__file__).parents[2] / "packaging/slurm/job-note"
CONF = "Prolog={root}/job-note\nEpilog={root}/job-note\nPrologFlags=Contain\n"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm") as place:
        # slurmd gives a prolog no environment to speak of: the directory stands in the script.
        text = SCRIPT.read_text().replace("/run/kwhere/slurm-jobs", f"{place}/notes")
        (Path(place) / "job-note").write_text(text)
        (Path(place) / "job-note").chmod(0o755)
        with running_cluster(Path(place), CONF) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def site(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    directory = tmp_path_factory.mktemp("roles")
    units: dict[str, object] = {"slurm_job_dir": str(slurm.root / "notes")}
    noted: dict[str, object] = {
        "admin_comment": {"settle_seconds": 1, "per_minute": 600, "excluded_projects": ["proj2"]}
    }
    made = SlurmSite(slurm, directory, f"sqlite:///{directory}/account.db", units, noted)
    try:
        yield made
    finally:
        made.roles.kill_all()


def note_of(slurm: SlurmCluster, job: str, node: str = "n1") -> JobNote:
    """Return the note of a job's epilog, once it has run."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        note = find_note(slurm.root / "notes", job, node)
        if note is not None and note.ended_seconds is not None:
            return note
        time.sleep(0.1)
    raise AssertionError(f"no note of job {job}")


def comment(slurm: SlurmCluster, job: str) -> str:
    return slurm.run("sacct", "-X", "-n", "-P", "-o", "AdminComment", "-j", job).strip()


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def test_a_jobs_run_begins_when_slurm_says(site: SlurmSite) -> None:
    job = site.slurm.sbatch("kwalice", "-n1", "-w", "n1", "-J", "noted", script="sleep 4")

    unit = site.wait_state(job, "completed")

    note = note_of(site.slurm, job)
    assert (note.user, note.account, note.partition) == ("kwalice", "proj1", "main")
    assert note.started_seconds is not None
    assert [run["run"] for run in unit["node_runs"]] == [f"{job}@{note.started_seconds}.n1"]
    assert abs(seconds(unit["started_at"]) - note.started_seconds) <= 1
    assert note.ended_seconds is not None
    assert abs(seconds(unit["ended_at"]) - note.ended_seconds) <= 2


def written(site: SlurmSite, job: str) -> dict[str, Any]:
    """Return what stands at an ended job, once anything does."""
    site.roles.wait_until(lambda: comment(site.slurm, job) != "")
    found: dict[str, Any] = parse_note(comment(site.slurm, job))
    return found


def test_what_a_job_used_stands_in_its_admin_comment(site: SlurmSite) -> None:
    job = site.slurm.sbatch("kwalice", "-n1", "-c2", "-w", "n1", "-J", "written", script=burn(3, idle=1))
    unit = site.wait_state(job, "completed")

    figures = written(site, job)

    assert float(figures["kwh"]) == pytest.approx(unit["energy_joules_total"] / 3.6e6, rel=0.01)
    assert float(figures["cpu_eff"]) == pytest.approx(unit["cpu_efficiency_ratio"], abs=0.02)
    assert used(unit) > 5


def test_tasks_of_an_array_each_have_their_own(site: SlurmSite) -> None:
    array = site.slurm.sbatch("kwalice", "-n1", "--array=1-2", "-J", "tasks", script="sleep 2")
    for task in (1, 2):
        site.slurm.wait_job(f"{array}_{task}", ["COMPLETED"])

    figures = [written(site, f"{array}_{task}") for task in (1, 2)]

    lines = site.slurm.run("sacct", "-X", "-n", "-P", "-o", "JobIDRaw", "-j", array).split()
    units = [site.unit(raw) for raw in sorted(lines, key=int)]
    assert sorted(float(each["kwh"]) for each in figures) == pytest.approx(
        sorted(unit["energy_joules_total"] / 3.6e6 for unit in units), rel=0.01
    )


def test_another_tools_text_and_excluded_accounts_are_left_alone(site: SlurmSite) -> None:
    jobs = [site.slurm.sbatch(user, "-n1", "-J", "left", script="sleep 3") for user in ("kwalice", "kwbob", "kwalice")]
    theirs, excluded, ours = jobs
    site.slurm.wait_job(theirs, ["RUNNING"])
    site.slurm.run("scontrol", "update", f"JobId={theirs}", "AdminComment=JS1:H4sIAAA=")
    for job in jobs:
        site.slurm.wait_job(job, ["COMPLETED"])

    written(site, ours)
    time.sleep(3)

    assert comment(site.slurm, theirs) == "JS1:H4sIAAA="
    assert comment(site.slurm, excluded) == ""


def test_a_slurmdbd_that_is_away_is_written_to_later(site: SlurmSite) -> None:
    job = site.slurm.sbatch("kwalice", "-n1", "-J", "later", script="sleep 2")
    site.slurm.wait_job(job, ["COMPLETED"])
    site.slurm.kill("slurmdbd")
    time.sleep(4)
    site.slurm.start_slurmdbd()

    figures = written(site, job)

    assert float(figures["kwh"]) > 0


def test_slurmrestd_is_asked_with_a_token_that_scontrol_prints(site: SlurmSite) -> None:
    site.slurm.start_slurmrestd()
    command = ("env", f"SLURM_CONF={site.slurm.environment['SLURM_CONF']}", "scontrol", "token", "lifespan=6")
    settings = SlurmRestSettings(url=site.slurm.rest_url, version="v0.0.38", user="root", token_command=command)
    rest = SlurmRest(settings, "lab", CLUSTER, (), SystemClock())
    now = datetime.now(UTC)
    span = Span(now - timedelta(hours=1), now)

    first = len(list(rest.fetch_units(span)))
    time.sleep(8)  # the first token has ended

    assert first > 0
    assert len(list(rest.fetch_units(span))) == first
    rest.close()


def test_the_ledger_has_the_end_that_the_epilog_noted(site: SlurmSite) -> None:
    job = site.slurm.sbatch("kwalice", "-n1", "-w", "n1", "-J", "ended", script="sleep 2")
    site.wait_state(job, "completed")
    note = note_of(site.slurm, job)
    time.sleep(3)
    site.roles.end("agent", signal.SIGTERM)

    entries = [each for each in entries_of(site.roles.journal()) if each.key is not None and each.key.unit == job]

    assert dict(entries[-1].labels)["slurm_end"] == str(note.ended_seconds)
    assert (entries[-1].user, entries[-1].project) == ("kwalice", "proj1")
