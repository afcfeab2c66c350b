"""Records that sacct tells again: the same answers, read once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_jobs import JobReader, SlurmJob
from kwhere.resource_managers.slurm_known import RecordReader
from kwhere.resource_managers.slurm_sacct import Faults, Table, draw_delimiter

FIELDS = ("JobIDRaw", "JobID", "Start", "End", "State", "User", "JobName", "ElapsedRaw", "JobIDRaw")
T0 = datetime.fromtimestamp(1_700_000_000, UTC)
TIMES = ("1700000000", "1700000060", "Unknown", "tomorrow")
RECORDS = st.tuples(
    st.sampled_from(("1", "2", "2.batch", "x")),
    st.sampled_from(TIMES),
    st.sampled_from(TIMES),
    st.sampled_from(("RUNNING", "COMPLETED", "CANCELLED by 0")),
    st.sampled_from(("alice", "", "(null)")),
    st.sampled_from(("a", "a\nb", "a', 'b", "a\0b", "\ufffd")),
    st.sampled_from(("0", "60")),
)


class Counting(JobReader):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__("c1")
        self.count = 0

    def unit_of(self, job: SlurmJob) -> ManagerUnit | None:
        self.count += 1
        return super().unit_of(job)


def told(*records: tuple[str, ...]) -> tuple[str, Table]:
    """Return an answer as sacct lays it out, with a delimiter of its own."""
    table = Table(FIELDS, draw_delimiter())
    return "".join(table.delimiter.join((each[0], *each, each[0])) + "\n" for each in records), table


def job(number: int, elapsed: str = "60") -> tuple[str, ...]:
    return (str(number), "1700000000", "Unknown", "RUNNING", "alice", "solve", elapsed)


def read(reader: RecordReader, *records: tuple[str, ...]) -> list[ManagerUnit | None]:
    faults = Faults()
    found = list(reader.read(*told(*records), faults))
    assert faults.count == 0
    return found


@given(st.lists(st.lists(RECORDS, max_size=6), max_size=5), st.integers(0, 4))
def test_answers_are_the_same_with_and_without_memory(answers: list[list[tuple[str, ...]]], most: int) -> None:
    remembering = RecordReader(JobReader("c1"), most)
    for records in answers:
        text, table = told(*records)
        faults, faults_anew = Faults(), Faults()

        found = list(remembering.read(text, table, faults))

        assert found == list(RecordReader(JobReader("c1")).read(text, table, faults_anew))
        assert faults == faults_anew


def test_a_record_told_again_is_not_read_again() -> None:
    counting = Counting()
    reader = RecordReader(counting)

    first = read(reader, job(1), job(2))

    assert read(reader, job(2), job(1), job(2)) == [first[1], first[0], first[1]]
    assert counting.count == 2


def test_a_damaged_record_is_counted_each_time_case_users_56() -> None:
    reader = RecordReader(JobReader("c1"))
    over = ("1", "1700000000", "Unknown", "COMPLETED", "alice", "solve", "60")
    for _ in range(3):
        faults = Faults()
        assert len(list(reader.read(*told(over), faults))) == 1
        assert faults.count == 1


def test_a_changed_record_is_read_anew() -> None:
    reader = RecordReader(JobReader("c1"))
    read(reader, job(1))

    (unit,) = read(reader, job(1, elapsed="61"))

    assert unit is not None
    assert unit.elapsed_seconds == 61


def test_the_same_values_of_other_fields_are_read_anew() -> None:
    reader = RecordReader(JobReader("c1"))
    text, table = told(job(1))
    list(reader.read(text, table, Faults()))
    fields = tuple({"User": "JobName", "JobName": "User"}.get(name, name) for name in FIELDS)

    (unit,) = reader.read(text, Table(fields, table.delimiter), Faults())

    assert unit is not None
    assert (unit.user, unit.name) == ("solve", "alice")


def test_what_the_last_answer_did_not_tell_is_forgotten() -> None:
    counting = Counting()
    reader = RecordReader(counting)
    for records in ([job(1)], [job(2)], [job(1)]):
        read(reader, *records)

    assert counting.count == 3


def test_no_more_than_the_bound_is_known() -> None:
    counting = Counting()
    reader = RecordReader(counting, most_known=3)
    jobs = [job(number) for number in range(10)]
    for _ in range(3):
        assert len(read(reader, *jobs)) == 10

    assert counting.count == 10 + 7 + 7


def test_each_span_is_told_what_lived_in_it(tmp_path: Path) -> None:
    """Whether a unit belongs to a span is asked of each span, whoever read it."""
    script = tmp_path / "sacct"
    line = "~".join(("7", "7", "1700000000", "1700005000", "COMPLETED", "alice", "5000", "solve", "7"))
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --helpformat ] && {{ echo "{" ".join(FIELDS)}"; exit; }}\n'
        "for word; do case $word in --delimiter=*) delimiter=${word#*=};; esac; done\n"
        f'echo "{line}" | sed "s/~/$delimiter/g"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    manager = Slurm(SlurmSettings(manager="slurm", cluster="c1", programs_dir=tmp_path))
    hours = [Span(T0 + timedelta(hours=hour), T0 + timedelta(hours=hour + 1)) for hour in range(3)]

    found = [list(manager.fetch_units(hour)) for hour in hours]

    assert [len(units) for units in found] == [1, 1, 0]
    assert found[0] == found[1]
    assert (found[1][0].name, found[1][0].elapsed_seconds) == ("solve", 5000)
