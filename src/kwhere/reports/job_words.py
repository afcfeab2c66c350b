"""Jobs and states as people write them: `123_4`, `100-105,107`, `123_[1-3]`, `123.batch`, `CD`, `OUT_OF_ME+`."""

import re
from collections.abc import Iterator, Sequence

from kwhere.core.errors import SourceError
from kwhere.database.records import JobWords
from kwhere.discovery.node_expressions import expand_numbers
from kwhere.resource_managers.slurm_words import parse_job_id, parse_state

MOST_JOBS = 1000
"""So many ids are asked for at once."""
_STATE = re.compile(r"[A-Za-z_]{1,32}\+?")
_RANGE = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_LIKE_A_JOB = re.compile(r"[0-9]{1,18}(?:[_+.].*)?|s[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{13}(?:\..*)?")


def parse_jobs(texts: Sequence[str]) -> JobWords:
    """Return the ids in `texts`, each a list of them; a step means its job. Raises SourceError.

    What looks like none of SLURM's is an id as it stands: a pod's uid, `alice:bash`, `nginx.service`.
    """
    words = JobWords()
    for text in texts:
        for word in _outside_brackets(text):
            words = _joined(words, _one(word))
            if len(words.units) + len(words.shown) + len(words.runs) > MOST_JOBS:
                raise SourceError(f"expected at most {MOST_JOBS} ids, found more: {text[:40]!r}")
    return words


def parse_states(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list in lower case, SLURM's abbreviations written out. Raises ValueError.

    Managers have words of their own, so one that nobody uses finds nothing.
    """
    return tuple(dict.fromkeys(_state(word) for part in text.split(",") if (word := part.strip())))


def _state(word: str) -> str:
    if not _STATE.fullmatch(word):
        raise ValueError(f"state: expected words such as running,failed, found {word[:40]!r}")
    state = parse_state(word)
    return state.name if state.is_known else word.lower()


def _one(word: str) -> JobWords:
    if _RANGE.fullmatch(word):
        return JobWords(frozenset(str(number) for number in _numbers(word)))
    if not _LIKE_A_JOB.fullmatch(word):
        return JobWords(frozenset([word]))
    job = parse_job_id(word.partition(".")[0])
    if job.sluid is not None:
        return JobWords(runs=frozenset([job.sluid]))
    if job.task is not None or job.tasks or job.het is not None:
        tasks = job.tasks or ((job.task,) if job.task is not None else ())
        ids = [f"{job.job}_{task}" for task in tasks] or [f"{job.job}"]
        return JobWords(shown=frozenset(each if job.het is None else f"{each}+{job.het}" for each in ids))
    # A service may be called `4.service`.
    return JobWords(frozenset([str(job.job), word]))


def _numbers(word: str) -> Sequence[int]:
    first, last = (int(part) for part in word.split("-"))
    if last - first >= MOST_JOBS:
        raise SourceError(f"expected a range of at most {MOST_JOBS} ids, found {word!r}")
    return expand_numbers(word)


def _joined(one: JobWords, other: JobWords) -> JobWords:
    return JobWords(one.units | other.units, one.shown | other.shown, one.runs | other.runs)


def _outside_brackets(text: str) -> Iterator[str]:
    for word in re.split(r",(?![^\[\]]*\])", text):
        if word.strip():
            yield word.strip()
