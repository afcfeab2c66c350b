"""The prolog's notes as the agent uses them: names, owner, start, end, GPUs, and whom it does not believe."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import gpu, held, job, node
from tests.unit.discovery.fake_cgroups import FakeCgroups
from tests.unit.discovery.fake_proc import BOOT_SECONDS

from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.gpu_finders import PrologFinder, SlurmBits
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.slurm_notes import JobNote, find_note, find_sluid, parse_gpus, parse_note, read_notes
from kwhere.discovery.unit_source import StepReading, TrackedUnit

SLUID = "s5K1KKYAYG5D00"
NOW = BOOT_SECONDS + 100
"""Where the clock of these trees begins, in UTC seconds."""


class Notes:
    """A directory of notes, written as the script writes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o755)

    def write(self, job: str, node: str = "n1", ending: str = "job", **facts: object) -> Path:
        lines = ["note=1", f"job={job}", f"node={node}", *(f"{key}={value}" for key, value in facts.items()), "whole=1"]
        path = self.directory / f"{job}.{node}.{ending}"
        path.write_text("\n".join(lines) + "\n")
        return path


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


@pytest.fixture
def tree(tmp_path: Path) -> FakeCgroups:
    return FakeCgroups(tmp_path)


def _units(tree: FakeCgroups, notes: Notes) -> CgroupUnits:
    source = tree.units(UnitsSettings(slurm_job_dir=notes.directory))
    source.step(tree.clock.tick(1))
    return source


def _appear(tree: FakeCgroups, source: CgroupUnits, path: str, seconds: float = 1) -> TrackedUnit:
    tree.put(path, 0.1, procs="1\n")
    (tracked,) = source.step(tree.clock.tick(seconds)).started
    source.close()
    return tracked


def test_a_job_has_what_its_prolog_noted(tree: FakeCgroups, notes: Notes) -> None:
    tree.put("/slurmstepd.scope", 0)
    source = _units(tree, notes)
    notes.write("42", started=NOW, uid=4242, user="alice", account="proj1", partition="gpu", name="cfd")

    tracked = _appear(tree, source, "/slurmstepd.scope/job_42", 5)

    assert tracked.key.run == f"42@{NOW}"
    assert (tracked.info.name, tracked.info.user, tracked.info.project) == ("cfd", "alice", "proj1")
    assert (tracked.uid, tracked.info.labels) == (4242, (("slurm_partition", "gpu"),))


def test_the_kernels_owner_goes_before_the_notes(tree: FakeCgroups, notes: Notes) -> None:
    tree.put("/slurm", 0)
    source = _units(tree, notes)
    notes.write("42", uid=7, user="alice")

    assert _appear(tree, source, "/slurm/uid_1000/job_42").uid == 1000


def test_case_users_31_a_sluid_is_told_its_job_by_the_prolog(tree: FakeCgroups, notes: Notes) -> None:
    tree.put("/slurmstepd.scope", 0)
    source = _units(tree, notes)
    notes.write("41", sluid="s0000000000000")
    notes.write("77", sluid=SLUID, account="proj1")

    tracked = _appear(tree, source, f"/slurmstepd.scope/{SLUID}")

    assert (tracked.key.unit, tracked.info.project) == ("77", "proj1")
    assert dict(tracked.info.labels)["slurm_sluid"] == SLUID


@pytest.mark.parametrize("started", [NOW - 3600, NOW + 3600, "x", "", "99999999999999"])
def test_a_start_that_cannot_be_of_this_run_is_not_believed(tree: FakeCgroups, notes: Notes, started: object) -> None:
    tree.put("/slurmstepd.scope", 0)
    source = _units(tree, notes)
    notes.write("42", started=started)

    seconds = int(_appear(tree, source, "/slurmstepd.scope/job_42").key.run.partition("@")[2])

    assert NOW <= seconds <= NOW + 3


def test_a_job_met_late_is_older_than_its_oldest_process(tree: FakeCgroups, notes: Notes) -> None:
    notes.write("42", started=BOOT_SECONDS + 10)
    tree.proc.process(5, "solver", start=9000)  # 90 s after the boot
    tree.put("/slurmstepd.scope/job_42", 1, procs="5\n")
    source = tree.units(UnitsSettings(slurm_job_dir=notes.directory), live=False)

    (tracked,) = source.step(tree.clock.tick(1)).started

    assert tracked.key.run == f"42@{BOOT_SECONDS + 10}"
    source.close()


def test_of_several_slurmd_each_has_its_own_note(tree: FakeCgroups, notes: Notes) -> None:
    tree.put("/slurm_n2", 0)
    source = _units(tree, notes)
    for name in ("n1", "n2"):
        notes.write("42", name, account=f"of-{name}")

    tracked = _appear(tree, source, "/slurm_n2/uid_1000/job_42")

    assert tracked.info.project == "of-n2"
    assert find_note(notes.directory, "42", None) is None  # which of the two is not said


def _end(tree: FakeCgroups, notes: Notes, *, noted_after_steps: int | None, ended: int) -> list[StepReading]:
    tree.put("/slurmstepd.scope", 0)
    source = _units(tree, notes)
    notes.write("42", started=NOW)
    tree.put("/slurmstepd.scope/job_42", 0.1, procs="1\n")
    source.step(tree.clock.tick(1))
    tree.remove("/slurmstepd.scope/job_42")
    found = []
    for step in range(20):
        if step == noted_after_steps:
            (notes.directory / "42.n1.job").unlink()
            notes.write("42", ending="ended", started=NOW, ended=ended)
        found.append(source.step(tree.clock.tick(1)))
    source.close()
    return found


@pytest.mark.parametrize("steps", [0, 3])
def test_the_epilogs_end_is_told_once_it_is_noted(tree: FakeCgroups, notes: Notes, steps: int) -> None:
    readings = _end(tree, notes, noted_after_steps=steps, ended=NOW + 2)

    assert [len(reading.ended) for reading in readings[:2]] == [1, 0]
    ((at, told),) = [(at, unit) for at, reading in enumerate(readings) for unit in reading.told]
    assert at == steps
    assert (told.key, dict(told.info.labels)["slurm_end"]) == (readings[0].ended[0].key, str(NOW + 2))


@pytest.mark.parametrize(("steps", "ended"), [(None, 0), (17, NOW + 2), (0, NOW - 50)])
def test_an_end_that_comes_too_late_or_is_of_another_run_is_not_waited_for(
    tree: FakeCgroups, notes: Notes, steps: int | None, ended: int
) -> None:
    assert not [unit for reading in _end(tree, notes, noted_after_steps=steps, ended=ended) for unit in reading.told]


def test_the_gpus_of_a_note_are_held(notes: Notes, tmp_path: Path) -> None:
    gpus = [gpu(number) for number in range(4)]
    settings = GpuMappingSettings(prolog_dirs=(tmp_path / "none",), gres_conf=(tmp_path / "gres.conf",))
    finder = PrologFinder(settings, SlurmBits(settings, ()), notes.directory)
    notes.write("42", gpus="1-2")
    notes.write("43", ending="ended", gpus="3", ended=5)
    notes.write("44", gpus="0")

    holds = finder.find(node(gpus, job(42), job(43)))

    assert held(holds) == {"42": ["1", "2"]}
    assert [one.job for one in finder.jobs] == ["42", "42", "44"]


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_directory_that_others_may_write_is_not_believed(notes: Notes, mode: int) -> None:
    notes.write("42", account="proj1")
    notes.directory.chmod(mode)

    assert find_note(notes.directory, "42", "n1") is None
    assert read_notes(notes.directory) == []


def test_a_link_to_a_directory_is_not_believed(notes: Notes, tmp_path: Path) -> None:
    notes.write("42")
    (tmp_path / "link").symlink_to(notes.directory)

    assert find_note(tmp_path / "link", "42", "n1") is None


def test_pipes_and_files_of_another_job_are_passed_over(notes: Notes) -> None:
    os.mkfifo(notes.directory / "42.n1.job")
    notes.write("43").rename(notes.directory / "44.n1.job")
    (notes.directory / "45.n1.job").write_text("note=1\njob=45\n" + "x" * 20_000 + "\nwhole=1\n")

    assert read_notes(notes.directory) == []
    assert find_note(notes.directory, "42", "n1") is None


def test_no_directory_is_no_note(tmp_path: Path) -> None:
    assert find_note(tmp_path / "none", "42", "n1") is None
    assert find_sluid(tmp_path / "none", SLUID) is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), ("0", (0,)), ("0,1", (0, 1)), ("0-3", (0, 1, 2, 3)), ("3,1,3", (3, 1)), ("2-1", ()), ("GPU-1", ()),
     ("0-9999", ()), ("0,", ()), ("-1", ()), (" 1 , 2 ", (1, 2))],
)  # fmt: skip
def test_the_numbers_of_gpus(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_gpus(text) == numbers


@given(st.text())
def test_any_text_is_a_note_or_none(text: str) -> None:
    assert parse_note(text) is None or "whole=1" in text


@given(st.dictionaries(st.sampled_from(["started", "ended", "uid", "gpus", "user", "name", "sluid"]), st.text()))
def test_any_values_are_read_or_unknown(values: dict[str, str]) -> None:
    lines = [f"{key}={value}".replace("\n", " ") for key, value in values.items()]

    note = parse_note("\n".join(["note=1", "job=42", "node=n1", *lines, "whole=1", ""]))

    assert isinstance(note, JobNote)
    assert note.started_seconds is None or note.started_seconds >= 0
