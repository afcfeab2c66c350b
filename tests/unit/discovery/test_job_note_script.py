"""slurmd's prolog and epilog, `job-note`: it ends well within a second whatever happens, and says the truth."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwhere.discovery.slurm_notes import JobNote, find_note, parse_note

SCRIPT = Path(__file__).parents[3] / "packaging" / "slurm" / "job-note"
DEADLINE_SECONDS = 1.0
SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]


class Node:
    """A node whose slurmd runs the script."""

    def __init__(self, notes: Path, shell: str = "sh") -> None:
        self.notes = notes
        self.shell = [shell, "sh"] if shell == "busybox" else [shell]

    def run(self, context: str, job: str = "42", *, path: str | None = None, **environment: str) -> float:
        """Run it as slurmd would; return the seconds it took. It must end with 0."""
        words = {
            "KWHERE_JOB_NOTES": str(self.notes),
            "SLURM_SCRIPT_CONTEXT": context,
            "SLURM_JOB_ID": job,
            "SLURMD_NODENAME": "n1",
            **({} if path is None else {"PATH": path}),
            **environment,
        }
        command = [shutil.which(self.shell[0]) or self.shell[0], *self.shell[1:], str(SCRIPT)]
        began = time.monotonic()
        done = subprocess.run(command, env=words, capture_output=True, check=False, timeout=20)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return time.monotonic() - began

    def prolog(self, **environment: str) -> float:
        return self.run("prolog_slurmd", **environment)

    def epilog(self, **environment: str) -> float:
        return self.run("epilog_slurmd", **environment)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.notes.iterdir())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "run" / "slurm-jobs")


@pytest.mark.parametrize("shell", SHELLS)
def test_prolog_and_epilog_note_a_job(tmp_path: Path, shell: str) -> None:
    node = Node(tmp_path / "notes", shell)
    before = int(time.time())

    node.prolog(
        SLURM_JOB_UID="1000", SLURM_JOB_USER="alice", SLURM_JOB_ACCOUNT="proj1", SLURM_JOB_PARTITION="gpu",
        SLURM_JOB_NAME="it's\n a=b\nended=7\n", SLURM_JOB_GPUS="0,3", SLURM_JOB_SLUID="s5K1KKYAYG5D00",
    )  # fmt: skip

    note = find_note(node.notes, "42", "n1")
    assert note is not None
    assert note.started_seconds is not None
    assert before <= note.started_seconds <= time.time()
    assert note == JobNote(
        "42", "n1", note.started_seconds, None, "s5K1KKYAYG5D00", 1000, "alice", "proj1", "gpu", "it's  a=b ended=7 ",
        (0, 3),
    )  # fmt: skip
    node.epilog(SLURM_JOB_UID="1000")
    ended = find_note(node.notes, "42", "n1")
    assert ended is not None
    assert ended.ended_seconds is not None
    assert (ended.started_seconds, ended.uid) == (note.started_seconds, 1000)
    assert ended.ended_seconds >= note.started_seconds
    assert node.names() == ["42.n1.ended"]


def test_slurms_own_start_is_taken_where_it_is_told(node: Node) -> None:
    node.prolog(SLURM_JOB_START_TIME="1796000000")

    node.epilog(SLURM_JOB_START_TIME="1796000000")

    note = find_note(node.notes, "42", "n1")
    assert note is not None
    assert note.started_seconds == 1_796_000_000


def test_a_requeued_job_begins_anew(node: Node) -> None:
    node.prolog(SLURM_JOB_ACCOUNT="old")
    node.epilog()

    node.prolog(SLURM_JOB_ACCOUNT="new")

    note = find_note(node.notes, "42", "n1")
    assert note is not None
    assert (note.account, note.ended_seconds) == ("new", None)
    assert node.names() == ["42.n1.job"]


def test_an_epilog_without_its_prolog_tells_the_end(node: Node) -> None:
    node.notes.mkdir(parents=True)

    node.epilog(SLURM_JOB_USER="alice")

    note = find_note(node.notes, "42", "n1")
    assert note is not None
    assert note.started_seconds is None
    assert note.ended_seconds is not None


def test_what_is_over_for_an_hour_is_cleaned_up(node: Node) -> None:
    node.prolog()
    old = time.time() - 2 * 3600
    for name in ("7.n1.ended", ".8.n1.tmp", "9.n1.job", "keep.me"):
        (node.notes / name).write_text("x")
        os.utime(node.notes / name, (old, old))

    node.epilog()

    assert node.names() == ["42.n1.ended", "9.n1.job", "keep.me"]


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../42"},
        {"SLURM_JOB_ID": "42;reboot"},
        {"SLURMD_NODENAME": "../../etc"},
        {"SLURMD_NODENAME": ".hidden"},
        {"SLURMD_NODENAME": "a b"},
    ],
)
@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_strange_ids_write_nothing(node: Node, context: str, environment: dict[str, str]) -> None:
    job = environment.get("SLURM_JOB_ID", "42")

    node.run(context, job, **{key: word for key, word in environment.items() if key != "SLURM_JOB_ID"})

    assert not node.notes.exists() or node.names() == []


def test_no_slurm_at_all_is_no_fault(tmp_path: Path) -> None:
    done = subprocess.run(["sh", str(SCRIPT)], env={}, capture_output=True, check=False, timeout=20, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_a_directory_that_cannot_be_made_or_written_is_no_fault(tmp_path: Path, context: str) -> None:
    (tmp_path / "file").write_text("not a directory")

    Node(tmp_path / "file").run(context)
    Node(tmp_path / "file" / "below").run(context)
    Node(Path("/proc/self/nowhere")).run(context)

    assert (tmp_path / "file").read_text() == "not a directory"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "full"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", place]).returncode != 0:
        pytest.skip("a file system of its own wants root")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_a_full_disk_leaves_no_half_note(full_disk: Path, context: str) -> None:
    (full_disk / "ballast").write_bytes(b"x" * 4096)
    node = Node(full_disk)

    node.run(context, SLURM_JOB_NAME="x" * 900)

    assert node.names() == ["ballast"]


def test_a_limit_on_files_leaves_no_half_note(node: Node) -> None:
    node.shell = ["sh", "-c", f"ulimit -f 0; . {SCRIPT}"]

    assert node.prolog(SLURM_JOB_NAME="x" * 900) < DEADLINE_SECONDS
    assert find_note(node.notes, "42", "n1") is None


@pytest.mark.parametrize(("context", "ending"), [("prolog_slurmd", "job"), ("epilog_slurmd", "ended")])
def test_a_file_system_that_hangs_is_left_at_the_deadline(node: Node, context: str, ending: str) -> None:
    node.notes.mkdir(parents=True)
    os.mkfifo(node.notes / ".42.n1.tmp")  # nobody reads it: whoever opens it to write waits for ever

    took = node.run(context)

    assert 0.5 < took < DEADLINE_SECONDS
    assert f"42.n1.{ending}" not in node.names()


@pytest.mark.parametrize("program", ["date", "mkdir", "mv", "rm", "find"])
def test_a_program_that_hangs_is_left_at_the_deadline(tmp_path: Path, program: str) -> None:
    """The script sets its own PATH first, so the hung program stands in a copy of it."""
    (tmp_path / "bin").mkdir()
    stuck = tmp_path / "bin" / program
    stuck.write_text("#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 5\n")
    stuck.chmod(0o755)
    script = tmp_path / "job-note"
    script.write_text(SCRIPT.read_text().replace("PATH=/usr/bin:", f"PATH={tmp_path}/bin:/usr/bin:"))
    (tmp_path / "notes").mkdir()
    node = Node(tmp_path / "notes")
    for context in ("prolog_slurmd", "epilog_slurmd"):
        words = {
            "KWHERE_JOB_NOTES": str(node.notes), "SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": "42",
            "SLURMD_NODENAME": "n1",
        }  # fmt: skip
        began = time.monotonic()

        done = subprocess.run(["sh", str(script)], env=words, capture_output=True, check=False, timeout=20)

        assert done.returncode == 0
        assert time.monotonic() - began < DEADLINE_SECONDS


def test_no_more_processes_is_no_fault(node: Node) -> None:
    if os.geteuid() != 0 or not shutil.which("dash"):
        pytest.skip("another user's limit wants root")
    words = {"KWHERE_JOB_NOTES": str(node.notes), "SLURM_JOB_ID": "42", "PATH": "/usr/bin:/bin"}
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "prlimit", "--nproc=0", "dash", "-s"]

    done = subprocess.run(command, input=SCRIPT.read_bytes(), env=words, capture_output=True, check=False, timeout=20)

    assert done.returncode == 0


def test_a_note_is_whole_or_not_there(node: Node) -> None:
    node.prolog(SLURM_JOB_NAME="x" * 3000)
    text = (node.notes / "42.n1.job").read_text()

    assert parse_note(text) is not None
    assert all(parse_note(text[:length]) is None for length in range(len(text)))
