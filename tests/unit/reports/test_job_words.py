"""Ids of jobs and words of states, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.database.records import JobWords
from kwhere.reports.job_words import MOST_JOBS, parse_jobs, parse_states


def units(*words: str) -> JobWords:
    return JobWords(units=frozenset(words))


def shown(*words: str) -> JobWords:
    return JobWords(shown=frozenset(words))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("123", units("123"), id="plain"),
        pytest.param("123_4", shown("123_4"), id="case_users_25_task"),
        pytest.param("123+0", shown("123+0"), id="case_users_25_het"),
        pytest.param("123_4+1.0", shown("123_4+1"), id="het task's step"),
        pytest.param("123.batch", units("123", "123.batch"), id="case_users_25_batch"),
        pytest.param("123_4.extern", shown("123_4"), id="case_users_25_extern"),
        pytest.param("100-105,107", units(*(str(n) for n in (*range(100, 106), 107))), id="case_users_30"),
        pytest.param(
            "4103947_[9-11,13,16-20%4]",
            shown(*(f"4103947_{n}" for n in (9, 10, 11, 13, 16, 17, 18, 19, 20))),
            id="case_users_29",
        ),
        pytest.param("alice:bash", units("alice:bash"), id="process group"),
        pytest.param("7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa", units("7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa"), id="pod"),
        pytest.param("nginx.service", units("nginx.service"), id="service"),
        pytest.param(" 7 , 8 ", units("7", "8"), id="blanks"),
        pytest.param("", JobWords(), id="nothing"),
    ],
)
def test_ids_are_read_as_they_are_written(text: str, words: JobWords) -> None:
    assert parse_jobs([text]) == words


@pytest.mark.parametrize(
    "text", ["1_", "1_[3-1]", "1+", "9-3", f"1-{MOST_JOBS + 1}", f"1_[1-{MOST_JOBS + 1}]", "1_[1-999999999]"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        parse_jobs([text])


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        words = parse_jobs([text])
    except SourceError:
        return
    assert len(words.units) + len(words.shown) + len(words.runs) <= MOST_JOBS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("FAILED,TIMEOUT", ("failed", "timeout")),
        ("CD, f,oom", ("completed", "failed", "out_of_memory")),
        ("OUT_OF_ME+", ("out_of_memory",)),
        ("running,ended,Succeeded", ("running", "ended", "succeeded")),
        ("failed,F", ("failed",)),
    ],
)
def test_states_are_words_in_any_case(text: str, words: tuple[str, ...]) -> None:
    assert parse_states(text) == words


@pytest.mark.parametrize("text", ["a b", "x" * 40, "1", "';--"])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="state"):
        parse_states(text)
