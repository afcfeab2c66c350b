"""The words in which the audit log tells of a list that was read."""

from datetime import UTC, datetime

from kwhere.core.timespan import Span
from kwhere.database.records import JobWords, UnitQuery
from kwhere.database.witness import words_of


def test_a_span_and_ids_are_told_as_a_person_reads_them() -> None:
    span = Span(datetime(2026, 11, 30, 5, tzinfo=UTC), datetime(2026, 11, 30, 6, 0, 7, 999, tzinfo=UTC))
    jobs = JobWords(units=frozenset({"4243", "4242"}), shown=frozenset({"4242", "77_1"}))

    told = words_of(UnitQuery(user="alice", states=("ended", "failed"), jobs=jobs, span=span))

    assert set(told.split()) == {
        "user=alice",
        "states=ended,failed",
        "jobs=4242,4243,77_1",
        "span=2026-11-30T05:00:00Z/2026-11-30T06:00:07Z",
    }


def test_a_list_that_is_not_narrowed_is_all() -> None:
    assert words_of(UnitQuery()) == "all"
