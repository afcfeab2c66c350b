"""A live provider asked sparingly: memory on disk, holes, revisions, threads."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emission_services import NOON, HandClock

from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.memory import MemoryFile, ProviderMemory, ZoneMemory
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

HOUR = timedelta(hours=1)


def hours(start: float, end: float) -> Span:
    return Span(NOON + start * HOUR, NOON + end * HOUR)


def factor(start: float, grams: float = 50.0, **changes: object) -> Factor:
    made = Factor(
        "live",
        "FR",
        hours(start, start + 1),
        grams,
        NOON + 1000 * HOUR,
        Basis.AVERAGE,
        Scope.DIRECT,
        System.CONSUMPTION,
        Quality.MEASURED,
        "a source",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


class Live:
    """A provider by the hour that a test scripts."""

    name = "live"
    refresh_seconds = 900.0

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.grams = 50.0
        self.basis = Basis.AVERAGE
        self.asked: list[tuple[str, Span]] = []

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        self.asked.append((zone, span))
        if self.error is not None:
            raise self.error
        first = (span.start - NOON) // HOUR
        last = -((NOON - span.end) // HOUR)
        return [factor(at, self.grams, zone=zone, basis=self.basis) for at in range(first, last)]


def cached(live: Live, clock: HandClock, directory: Path | None = None) -> CachedProvider:
    return CachedProvider(live, Basis.AVERAGE, MemoryFile(directory, live.name), clock)


def test_after_a_long_silence_all_that_was_missed_is_asked_for(tmp_path: Path) -> None:
    live, clock = Live(), HandClock()
    cached(live, clock, tmp_path).factors("FR", hours(-72, 0))
    clock.ahead(days=5)

    found = cached(live, clock, tmp_path).factors("FR", hours(-72, 120))

    # Known until noon five days ago; and 48 hours back from now may have been revised.
    assert live.asked[-1][1] == hours(0, 120)
    assert len(found) == 192


def test_what_may_have_been_revised_is_asked_for_again_and_no_more() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    provider.factors("FR", hours(-300, 0))
    clock.ahead(minutes=15)
    live.grams = 60.0

    found = provider.factors("FR", hours(-300, 0.25))

    assert live.asked[-1][1] == hours(-47.75, 0.25)
    assert {f.grams_per_kwh for f in found if f.span.start >= NOON - 48 * HOUR} == {60.0}
    assert {f.grams_per_kwh for f in found if f.span.start < NOON - 49 * HOUR} == {50.0}


def test_publication_is_never_later_than_now_and_a_revision_is_later_than_what_it_revises() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    first = provider.factors("FR", hours(-3, 0))
    clock.ahead(minutes=15)
    live.grams = 60.0

    second = provider.factors("FR", hours(-3, 0))

    assert {f.published_at for f in first} == {NOON}
    assert {f.published_at for f in second} == {NOON + HOUR / 4}


def test_one_zone_that_is_refused_hinders_no_other() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    live.error = Unavailable("zone", "not in your plan")
    with pytest.raises(Unavailable):
        provider.factors("XX", hours(-1, 0))
    live.error = None

    assert provider.factors("FR", hours(-1, 0))
    with pytest.raises(Unavailable, match="plan"):
        provider.factors("XX", hours(-1, 0))
    assert [zone for zone, _ in live.asked] == ["XX", "FR"]

    clock.ahead(hours=25)
    assert provider.factors("XX", hours(-1, 0)), "a plan may have been bought"


def test_a_provider_that_is_away_is_away_for_every_zone() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    live.error = Unavailable("timeout", "no answer")
    for zone in ("A", "B", "C"):
        with pytest.raises(Unavailable):
            provider.factors(zone, hours(-1, 0))

    assert len(live.asked) == 1


def test_an_empty_answer_is_no_failure_and_says_why_nothing_is_there() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    live.error = NoData("nothing yet")

    assert provider.factors("FR", hours(-1, 0)) == ()
    assert provider.fault("FR") == "nothing yet"
    assert (provider.refresh_errors, provider.refresh_seconds) == (0, 900)


@pytest.mark.parametrize(
    "error", [SourceError("html"), Unavailable("denied", "bad key"), Unavailable("secret", "none")]
)
def test_a_fault_is_counted_and_the_moment_of_the_last_good_answer_stays(error: Exception) -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    provider.factors("FR", hours(-1, 0))
    clock.ahead(hours=1)
    live.error = error

    provider.factors("FR", hours(-1, 0))

    assert (provider.refresh_errors, provider.refreshed_at, provider.fault("FR")) == (1, NOON, str(error))


def test_a_wrong_zone_is_an_error_even_where_something_is_known() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    provider.factors("FR", hours(-1, 0))
    clock.ahead(hours=1)
    live.error = ConfigError("zone: expected DE")

    with pytest.raises(ConfigError):
        provider.factors("FR", hours(-1, 0))


def test_a_factor_of_the_other_basis_is_refused() -> None:
    live = Live()
    live.basis = Basis.MARGINAL

    with pytest.raises(SourceError, match="never mixed"):
        cached(live, HandClock()).factors("FR", hours(-1, 0))


def kept(rows: str) -> str:
    zone = f'{{"since": null, "until": null, {rows}}}'
    return f'{{"format": 1, "not_before": null, "zones": {{"FR": {zone}}}}}'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"format": 99, "not_before": null, "zones": {}}',
        '{"format": 1, "not_before": "noon", "zones": {}}',
        kept('"kinds": [], "factors": [[0]]'),
        kept('"kinds": [], "factors": [[0, 1, 2, 3, 4]]'),
        kept('"kinds": [{}], "factors": [[0, 1, 2, 3, 4]]'),
        kept('"kinds": [{}], "factors": [[0, 1e300, 2, 3, null]]'),
        '{"format": 1, "not_before": null, "zones": [1]}',
        "[" * 50_000,
    ],
)
def test_a_memory_that_cannot_be_read_is_as_if_there_were_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "live.json").write_text(content)
    live = Live()

    assert cached(live, HandClock(), tmp_path).factors("FR", hours(-2, 0))
    assert live.asked
    assert json.loads((tmp_path / "live.json").read_text())["format"] == 1


def test_a_memory_that_cannot_be_written_costs_no_figure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a directory")

    assert cached(Live(), HandClock(), tmp_path / "file").factors("FR", hours(-2, 0))


GRAMS = st.floats(0, 5000, allow_nan=False)


@given(st.lists(st.tuples(GRAMS, st.sampled_from(Quality), st.integers(0, 10**15)), max_size=20), st.booleans())
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[float, Quality, int]], waits: bool
) -> None:
    file = MemoryFile(tmp_path_factory.mktemp("memory"), "Live/../x")
    known = [
        factor(at, grams, quality=quality, published_at=NOON - timedelta(microseconds=age), source=f"ü{at % 3}")
        for at, (grams, quality, age) in enumerate(parts)
    ]
    memory = ProviderMemory({"FR": ZoneMemory(known, NOON, NOON + HOUR)}, NOON if waits else None)

    file.save(memory)

    assert file.load() == memory


def test_a_fortnight_of_five_minutes_is_a_small_file(tmp_path: Path) -> None:
    step = timedelta(minutes=5)
    known = [factor(0, 400.123456, span=Span(NOON + n * step, NOON + (n + 1) * step)) for n in range(4032)]

    MemoryFile(tmp_path, "live").save(ProviderMemory({"FR": ZoneMemory(known, NOON, NOON)}))

    assert (tmp_path / "live.json").stat().st_size < 350_000


def test_threads_share_one_question() -> None:
    live, clock = Live(), HandClock()
    provider = cached(live, clock)
    answers: list[int] = []

    def ask() -> None:
        answers.append(len(provider.factors("FR", hours(-24, 0))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [24] * 8
    assert len(live.asked) == 1
