"""AdminComment by SLURM's programs: whose it is, what is asked, and what is not dared."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.resource_managers.notes import NoteBook, NotedRun, NoteSettings
from kwhere.resource_managers.resource_manager import NotingManager
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_comments import AdminComments

START = datetime.fromtimestamp(1_796_000_000, UTC)


class Programs:
    """A sacct and a sacctmgr that keep what they were asked and say what a test gives them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("sacct", "sacctmgr"):
            self.says(name, "")

    def says(self, name: str, text: str, *, fault: str = "", code: int = 0) -> None:
        (self.directory / f"{name}.says").write_text(text, encoding="utf-8")
        script = self.directory / name
        # What the delimiter is, is drawn for each call.
        script.write_text(
            f"""#!/bin/sh
for word; do printf '%s\\n' "$word"; done >> {self.directory}/{name}.asked
for word; do case $word in --delimiter=*) d=${{word#--delimiter=}};; esac; done
D=$d python3 -c 'import os, sys; print(open(sys.argv[1]).read().replace("~", os.environ["D"]), end="")' \\
{self.directory}/{name}.says
printf '%s' "{fault}" >&2
exit {code}
""",
            encoding="utf-8",
        )
        script.chmod(0o755)

    def asked(self, name: str) -> list[str]:
        path = self.directory / f"{name}.asked"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def book(self, **settings: object) -> NoteBook:
        words = {"manager": "slurm", "cluster": "c1", "programs_dir": self.directory, "slurm_cluster": "big"}
        noted = NoteSettings.model_validate(settings)
        manager = Slurm(SlurmSettings.model_validate({**words, "admin_comment": noted}))
        assert isinstance(manager, NotingManager)
        assert manager.notes is not None
        return manager.notes


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def run(unit: str = "42", shown: str = "") -> NotedRun:
    return NotedRun(unit, shown or unit, START)


def row(
    raw: str, shown: str, comment: str, *, start: int = 1_796_000_000, end: str = "1796000060", state: str = "COMPLETED"
) -> str:
    return "~".join([raw, shown, str(start), end, state, comment, raw]) + "\n"


def test_it_is_off_by_default() -> None:
    assert Slurm(SlurmSettings(manager="slurm", cluster="c1")).notes is None


def test_all_jobs_are_read_at_once(programs: Programs) -> None:
    texts = {"42": "", "43": "JS1:a|b\nkwhere1:x", "41": "kwhere1:kwh=1"}
    runs = [run("42"), run("43", "40_2"), run("41", "41+0")]
    programs.says("sacct", "".join(row(each.unit, each.shown, texts[each.unit]) for each in runs))

    found = programs.book().read(runs)

    assert {each.unit: text for each, text in found.items()} == texts
    asked = programs.asked("sacct")
    assert "--jobs=40_2,41+0,42" in asked
    assert "--clusters=big" in asked
    assert "--duplicates" not in asked


@pytest.mark.parametrize(
    "answer",
    [
        row("42", "42", "x", start=1_796_000_001),  # another run of the same id
        row("42", "42", "x", end="Unknown", state="RUNNING"),
        row("42", "42", "x", state="REQUEUED"),
        row("42", "42", "x", state="RESIZING"),
        row("43", "43", "x"),
        row("42", "42", "x", end="nonsense"),
        "42~42~1796000000\n",
        "",
    ],
)
def test_what_is_not_that_run_cannot_be_written_about(programs: Programs, answer: str) -> None:
    programs.says("sacct", answer)

    assert programs.book().read([run()]) == {}


@pytest.mark.parametrize(
    "shown", ["42 set AdminComment=x", "42,43", "", "-1", "42_[1-3]", "s5K1KKYAYG5D00", "42.batch"]
)
def test_an_id_that_may_mean_more_is_not_asked_for(programs: Programs, shown: str) -> None:
    assert programs.book().read([NotedRun("42", shown, START)]) == {}
    assert programs.asked("sacct") == []


def test_one_job_is_written_by_the_name_that_people_use(programs: Programs) -> None:
    programs.says("sacctmgr", " Modified jobs...\n  42 submitted at 1796000000\n")

    programs.book().write(run("42", "40_2"), "JS1:abc= kwhere1:kwh=1;x=2")

    assert programs.asked("sacctmgr") == [
        *("-i", "modify", "job", "where", "jobid=40_2", "cluster=big", "set", "AdminComment=JS1:abc= kwhere1:kwh=1;x=2")
    ]


def test_a_resized_job_may_be_written_to_each_of_its_records(programs: Programs) -> None:
    programs.says("sacctmgr", " Modified jobs...\n  42 submitted at 1796000000\n  42 submitted at 1796000014\n")

    programs.book().write(run(), "x")

    assert len(programs.asked("sacctmgr")) > 0


def test_more_jobs_than_one_are_a_fault(programs: Programs) -> None:
    programs.says("sacctmgr", " Modified jobs...\n  42 submitted at 1796000000\n  43 submitted at 1796000000\n")

    with pytest.raises(SourceError, match="expected one job to be changed, found 2"):
        programs.book().write(run(), "x")


@pytest.mark.parametrize("text", ["it's", 'a"b', "a`b", "a\\b", "a\nb", "é", "", "x" * 5000])
def test_signs_that_slurm_changes_are_not_written(programs: Programs, text: str) -> None:
    with pytest.raises(SourceError, match="AdminComment"):
        programs.book().write(run(), text)
    assert programs.asked("sacctmgr") == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            "sacctmgr: error: Your user doesn't have privilege to perform this action\n Access/permission denied",
            "permission",
        ),
        ("sacctmgr: error: Sending PersistInit msg: Connection refused", "refused"),
    ],
)
def test_why_it_cannot_be_written(programs: Programs, fault: str, reason: str) -> None:
    programs.says("sacctmgr", "", fault=fault, code=1)

    with pytest.raises(Unavailable) as caught:
        programs.book().write(run(), "x")

    assert caught.value.reason == reason


@given(st.text())
def test_any_answer_is_read_or_nothing(text: str) -> None:
    comments = AdminComments(NoteSettings(), lambda *_: text, lambda: "big")

    assert set(comments.read([run()])) <= {run()}
