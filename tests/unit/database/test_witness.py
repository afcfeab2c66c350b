"""The words in which the audit log tells of a list that was read."""

from datetime import UTC, datetime, timedelta

from kwhere.core.timespan import Span
from kwhere.database.records import JobWords, UnitQuery
from kwhere.database.witness import questions_of, words_of


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


NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)


def _asked(start: datetime, end: datetime) -> set[str]:
    return set(questions_of(words_of(UnitQuery(user="alice", span=Span(start, end))), NOW))


def test_a_span_that_moves_along_is_the_same_question() -> None:
    hour, later = timedelta(hours=1), timedelta(minutes=7)

    assert _asked(NOW - hour, NOW) & _asked(NOW - hour + later, NOW + later) == {"user=alice span=last 60 min"}
    assert _asked(NOW - 6 * hour, NOW) & _asked(NOW - 6 * hour, NOW + later)
    assert not _asked(NOW - hour, NOW) & _asked(NOW - 2 * hour, NOW)


def test_two_spans_of_the_past_are_two_questions() -> None:
    day = timedelta(days=1)

    assert not _asked(NOW - 3 * day, NOW - 2 * day) & _asked(NOW - 2 * day, NOW - day)
