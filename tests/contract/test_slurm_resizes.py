"""Jobs that gave nodes back or lost them, as a SLURM 22.05.8 told of them: several records, one job.

Its records have the job's own start, each was submitted when the one before ended, and `NodeList` is what is left.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.unit.server.test_manager_pass import Always

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Flag
from kwhere.database.records import UnitQuery, UnitRecord
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.server.manager_pass import ManagerPass

START_S = T0_NS // SECOND_NS
HOUR_S = 3600
RESIZED_S = START_S + 2 * HOUR_S
FIELDS = (
    *("JobIDRaw", "JobID", "Start", "End", "State", "SLUID", "Submit", "User", "UID", "NodeList", "AllocTRES"),
    *("ElapsedRaw", "JobName"),
)
_SACCT = """\
import json, sys
if sys.argv[1] == "--helpformat":
    print({fields!r})
    sys.exit()
words = dict(word.split("=", 1) for word in sys.argv if "=" in word)
delimiter = words["--delimiter"]
open({asked!r}, "a").write(words.get("--jobs", "-") + "\\n")
from datetime import datetime
first, last = (
    datetime.fromisoformat(words[name] + "+00:00").timestamp() for name in ("--starttime", "--endtime")
)
for row in json.load(open({file!r})):
    end = float("inf") if row[3] == "Unknown" else int(row[3])
    if int(row[2]) <= last and end >= first and row[0] in words.get("--jobs", row[0]).split(","):
        sys.stdout.write(delimiter.join([*row, row[0]]) + "\\n")
"""


def record(end: int | None, state: str, submit: int, nodes: str, tres: str, **changes: str) -> Sequence[str]:
    """Return one of the records of job 7."""
    told = {
        "JobIDRaw": "7",
        "JobID": "7",
        "Start": str(START_S),
        "End": "Unknown" if end is None else str(end),
        "State": state,
        "SLUID": "",
        "Submit": str(submit),
        "User": "alice",
        "UID": "1000",
        "NodeList": nodes,
        "AllocTRES": tres,
        "ElapsedRaw": str((end or RESIZED_S + 2 * HOUR_S) - START_S),
        "JobName": "x",
        **changes,
    }
    return [told[field] for field in FIELDS]


BEFORE = record(RESIZED_S, "RESIZING", START_S - 3, "n[1-2]", "cpu=4,mem=4G,node=2,gres/gpu:a100=2")
AFTER = record(None, "RUNNING", RESIZED_S, "n1", "cpu=2,mem=2G,node=1,gres/gpu:a100=1")
OVER = record(RESIZED_S + 2 * HOUR_S, "COMPLETED", RESIZED_S, "n1", "cpu=2,mem=2G,node=1,gres/gpu:a100=1")


def with_field(row: Sequence[str], field: str, value: str) -> Sequence[str]:
    """Return a record that says something else."""
    return [value if name == field else word for name, word in zip(FIELDS, row, strict=True)]


def worked(node: str, joules: int) -> HandJournal:
    """Job 7 on a node, within its first minute."""
    journal = HandJournal(node=node, machine_id=f"m-{node}")
    journal.append([unit(key("7"), figures(joules * J, 0), user="uid-1000", name="cgroup"), system(figures(0, 0))])
    return journal


class ResizedSite:
    """Two nodes that saw job 7, and a SLURM whose records a test chooses."""

    def __init__(self, engine: Engine, place: Path) -> None:
        self.site = Site(engine)
        self._place = place
        script = _SACCT.format(fields=" ".join(FIELDS), file=str(place / "records"), asked=str(place / "asked"))
        (place / "sacct.py").write_text(script)
        for program, line in {
            "sacct": f'exec {sys.executable} {place}/sacct.py "$@"',
            "scontrol": "echo 'ClusterName = c1'",
            "sacctmgr": "exit 0",
            "squeue": "exit 1",
        }.items():
            (place / program).write_text(f"#!/bin/sh\n{line}\n")
            (place / program).chmod(0o755)
        self.settings = SlurmSettings(manager="slurm", cluster="c1", programs_dir=place, backfill_days=0.001)
        self.slurm = Slurm(self.settings)

    def look(self, now_s: int, *records: Sequence[str]) -> None:
        """Look at SLURM once."""
        (self._place / "records").write_text(json.dumps(records), encoding="utf-8")
        self.site.clock.now_ns = now_s * SECOND_NS
        built = BuiltManager(settings=self.settings, source=self.slurm, claims="slurm")
        with pytest.raises(Unavailable, match="squeue"):  # jobs are read, and none vanishes
            ManagerPass(self.site.engine, built, self.site.clock).run(Always())

    def asked(self) -> list[str]:
        """Return whether jobs were asked for by id, and which."""
        return [word for word in (self._place / "asked").read_text().split() if word != "-"]

    def job(self) -> UnitRecord:
        """Return the only run there is."""
        (listed,) = self.site.reader.units(UnitQuery()).items
        return self.site.reader.unit("c1", "slurm", listed.unit)


@pytest.fixture
def resized(engine: Engine, tmp_path: Path) -> ResizedSite:
    return ResizedSite(engine, tmp_path)


SEEN = pytest.mark.parametrize(
    "sluids",
    [
        pytest.param(("", ""), id="case_users_22"),
        pytest.param(("s5K1KKYAYG5D00", "s5K1KKYAYG5D01"), id="case_users_23"),
    ],
)


@SEEN
@pytest.mark.parametrize("looks", [[START_S + 60, RESIZED_S + 60, RESIZED_S + HOUR_S], [RESIZED_S + 90 * 60]])
def test_a_node_that_was_given_back_stays_the_jobs(
    resized: ResizedSite, looks: Sequence[int], sluids: tuple[str, str]
) -> None:
    """Also where nobody looked before the job was resized, or looks so late that only its newest record is told."""
    for node, joules in (("n1", 3000), ("n2", 1000)):
        resized.site.take(worked(node, joules))
    before, after = (with_field(row, "SLUID", sluid) for row, sluid in zip((BEFORE, AFTER), sluids, strict=True))

    for now_s in looks:
        running = [with_field(with_field(before, "End", "Unknown"), "State", "RUNNING")]
        resized.look(now_s, *(running if now_s < RESIZED_S else [before, after]))

    job = resized.job()
    assert (job.user, job.state, job.energy_total_uj) == ("alice", "running", 4000 * J)
    assert sorted(run.node for run in job.node_runs) == ["n1", "n2"]
    assert Flag.UNVERIFIED not in job.quality
    assert job.nodes_unreported == ()
    assert job.started_at.timestamp() == START_S
    assert job.submitted_at is not None
    assert job.submitted_at.timestamp() == START_S - 3
    assert job.run == (sluids[0] or f"7@{START_S}")


def test_its_allocation_is_the_mean_over_its_life(resized: ResizedSite) -> None:
    resized.site.take(worked("n1", 1))
    resized.look(RESIZED_S + 2 * HOUR_S + 60, BEFORE, OVER)

    job = resized.job()
    assert (job.state, job.elapsed_ns) == ("completed", 4 * HOUR_S * SECOND_NS)
    assert (job.cpus_allocated, job.memory_allocated_bytes) == (3.0, 3 * 2**30)
    assert job.gpus_allocated == {"a100": 1.5}
    assert job.cpu_allocated_seconds == 12 * HOUR_S
    assert job.labels["resized"] == "1"


def test_records_that_were_read_are_not_asked_for_again(resized: ResizedSite) -> None:
    for minute in range(4):
        resized.look(RESIZED_S + (90 + minute) * 60, BEFORE, AFTER)

    assert resized.asked() == ["7"]


def test_a_job_that_was_resized_twice_is_one(resized: ResizedSite) -> None:
    second_s = RESIZED_S + HOUR_S
    middle = record(second_s, "RESIZING", RESIZED_S, "n1", "cpu=2,mem=2G,node=1")
    last = record(second_s + HOUR_S, "COMPLETED", second_s, "n[1,3]", "cpu=4,mem=4G,node=2")

    resized.look(second_s + HOUR_S + 60, BEFORE, middle, last)

    job = resized.job()
    assert (job.nodes, job.cpus_allocated, job.labels["resized"]) == (("n1", "n2", "n3"), 3.5, "2")


@pytest.mark.parametrize(
    "changes",
    [
        {"Submit": str(RESIZED_S + 1)},
        {"User": "bob", "UID": "1001"},
        {"Start": str(RESIZED_S + 60), "Submit": str(RESIZED_S + 50)},
    ],
)
def test_an_id_that_came_again_is_another_job_case_users_23(resized: ResizedSite, changes: Mapping[str, str]) -> None:
    other = AFTER
    for field, value in {"Start": str(RESIZED_S), **changes}.items():
        other = with_field(other, field, value)

    resized.look(RESIZED_S + 70, BEFORE, other)

    listed = resized.site.reader.units(UnitQuery()).items
    assert sorted((one.state, one.nodes) for one in listed) == [("resizing", ("n1", "n2")), ("running", ("n1",))]
