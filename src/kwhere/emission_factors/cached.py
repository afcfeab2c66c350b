"""A live provider, asked sparingly: what it said is kept, what failed is asked again later and later.

- A failure is never kept: it is tried again after a minute, then after twice as long each time, up to an hour, or when
  the service says. A key that was refused is not shown again until it changes.
- A figure that is told again keeps the date it was first published at; one that changes is published anew.
- While the service is away, what is known answers for its own time; what stands in for the present is the chooser's.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, KwhereError, NoData, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.emission_factors.memory import MemoryFile, ProviderMemory, ZoneMemory
from kwhere.emission_factors.provider import (
    Basis,
    EmissionFactorProvider,
    Factor,
    ForecastProvider,
    KeyedProvider,
    ZoneChecker,
)

FIRST_RETRY_SECONDS = 60.0
MOST_RETRY_SECONDS = 3600.0
ZONE_RETRY_SECONDS = 86400.0
"""A zone that is not in the plan may be bought; nobody needs to know within the minute."""
KEPT = timedelta(days=16)
REVISED = timedelta(hours=48)
"""How far back a figure that was asked for once is asked for again: services revise."""
FRESH_RATIO = 0.5
"""What was asked for this part of a refresh ago is not asked for again."""

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Trouble:
    """Why a zone, or the whole provider, is left alone."""

    error: KwhereError
    until_ns: int | None
    """On the monotonic clock; None: until the key changes."""
    times: int
    key: str


class CachedProvider:
    """One live provider with its memory; safe to share between threads."""

    def __init__(
        self,
        provider: EmissionFactorProvider,
        basis: Basis,
        memory: MemoryFile,
        clock: Clock,
        *,
        answers_whole: bool = False,
    ) -> None:
        """`answers_whole`: what an answer lacks is no longer so, rather than not told this time."""
        self.name = provider.name
        self._answers_whole = answers_whole
        self._provider = provider
        self._basis = basis
        self._file = memory
        self._clock = clock
        self._lock = threading.Lock()
        self._memory: ProviderMemory | None = None
        self._asked_ns: dict[str, int] = {}
        self._forecasts: dict[str, tuple[int, Span, Sequence[Factor]]] = {}
        self._troubles: dict[str | None, _Trouble] = {}
        self._silent: dict[str, str] = {}
        self.refresh_errors = 0
        """Questions that failed since the start."""
        self.refreshed_at: datetime | None = None
        """When a question was last answered well."""

    @property
    def refresh_seconds(self) -> float:
        """Return in how many seconds it is worth asking: sooner while something is to be tried again."""
        now_ns = self._clock.monotonic_ns()
        waits = [
            max(FIRST_RETRY_SECONDS, (trouble.until_ns - now_ns) / NANOSECONDS_PER_SECOND)
            for trouble in list(self._troubles.values())
            if trouble.until_ns is not None
        ]
        return min([self._provider.refresh_seconds, *waits])

    @property
    def has_forecast(self) -> bool:
        """Return whether it looks ahead."""
        return isinstance(self._provider, ForecastProvider)

    def fault(self, zone: str) -> str:
        """Return why the newest question about `zone` brought nothing; empty where it did."""
        trouble = self._troubles.get(None) or self._troubles.get(zone)
        return str(trouble.error) if trouble else self._silent.get(zone, "")

    def check_zone(self, zone: str) -> None:
        """Raise ConfigError for a zone that the provider is sure not to have."""
        if isinstance(self._provider, ZoneChecker):
            self._provider.check_zone(zone)

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return what is known within `span`, after asking where that is due. Raises only where nothing is known."""
        with self._lock:
            failure = self._refresh(zone, span)
            known = [factor for factor in self._zone(zone).factors if factor.span.overlaps(span)]
        if failure is not None and (not known or isinstance(failure, ConfigError)):
            raise failure
        return tuple(known)

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the forecast within `span`; NoData where the provider has none. Raises like `factors`."""
        provider = self._provider
        if not isinstance(provider, ForecastProvider):
            raise NoData(f"{self.name}: gives no forecast")
        with self._lock:
            held = self._forecasts.get(zone)
            if held is None or not self._is_fresh(held[0]) or not _holds(held[1], span):
                found = self._ask(zone, lambda: self._checked(provider.forecast(zone, span)))
                if isinstance(found, KwhereError):
                    raise found
                held = (self._clock.monotonic_ns(), span, found)
                self._forecasts[zone] = held
        return tuple(factor for factor in held[2] if factor.span.overlaps(span))

    def _refresh(self, zone: str, span: Span) -> KwhereError | None:
        """Ask about the part of `span` that is new or may have changed; return why that failed."""
        known = self._zone(zone)
        asked_ns = self._asked_ns.get(zone)
        is_covered = known.since is not None and known.since <= span.start
        if is_covered and asked_ns is not None and self._is_fresh(asked_ns):
            return None
        wanted = self._unknown_part(known, span) if is_covered else span
        found = self._ask(zone, lambda: self._checked(self._provider.factors(zone, wanted)))
        self._silent[zone] = str(found) if isinstance(found, NoData) else ""
        if isinstance(found, NoData):
            found = ()
        if isinstance(found, KwhereError):
            return found
        self._learn(zone, wanted, found)
        self._asked_ns[zone] = self._clock.monotonic_ns()
        return None

    def _unknown_part(self, known: ZoneMemory, span: Span) -> Span:
        """Return what of `span` was never asked for or may have been revised since."""
        reach = min(self._now(), span.end) - REVISED
        if known.until is not None:
            reach = min(reach, known.until)
        return Span(max(span.start, reach), span.end)

    def _ask(self, zone: str, question: Callable[[], ResultT]) -> ResultT | KwhereError:
        """Return the answer, or why there is none: now, or because it is too early to ask again."""
        trouble = self._standing(zone)
        if trouble is not None:
            return trouble.error
        try:
            answer = question()
        except NoData as error:
            self._went_well(zone)
            return error
        except (ConfigError, Unavailable, SourceError) as error:
            self._failed(zone, error)
            return error
        self._went_well(zone)
        return answer

    def _went_well(self, zone: str) -> None:
        self._troubles.pop(None, None)
        self._troubles.pop(zone, None)
        self._loaded().not_before = None
        self.refreshed_at = self._now()

    def _standing(self, zone: str) -> _Trouble | None:
        """Return the trouble that forbids a question now."""
        memory = self._loaded()
        now = self._now()
        if memory.not_before is not None and now < memory.not_before < now + KEPT and None not in self._troubles:
            wait_ns = int((memory.not_before - now).total_seconds() * NANOSECONDS_PER_SECOND)
            until = f"{memory.not_before:%Y-%m-%d %H:%M} UTC"
            waiting = Unavailable("throttled", f"{self.name}: wants to be left alone until {until}")
            self._troubles[None] = _Trouble(waiting, self._clock.monotonic_ns() + wait_ns, 1, "")
        for subject in (None, zone):
            trouble = self._troubles.get(subject)
            if trouble is None:
                continue
            if trouble.until_ns is not None and self._clock.monotonic_ns() < trouble.until_ns:
                return trouble
            if trouble.until_ns is None and trouble.key == self._key():
                return trouble
        return None

    def _failed(self, zone: str, error: KwhereError) -> None:
        self.refresh_errors += 1
        subject = None if isinstance(error, Unavailable) and error.reason != "zone" else zone
        before = self._troubles.get(subject)
        times = before.times + 1 if before else 1
        seconds = _wait_seconds(error, times)
        until_ns = None if seconds is None else self._clock.monotonic_ns() + int(seconds * NANOSECONDS_PER_SECOND)
        self._troubles[subject] = _Trouble(error, until_ns, times, self._key())
        if isinstance(error, Unavailable) and error.retry_after_seconds and seconds is not None:
            memory = self._loaded()
            memory.not_before = self._now() + timedelta(seconds=seconds)
            self._file.save(memory)

    def _key(self) -> str:
        if not isinstance(self._provider, KeyedProvider):
            return ""
        try:
            return self._provider.key_digest()
        except Unavailable:
            return "unreadable"

    def _learn(self, zone: str, wanted: Span, found: Sequence[Factor]) -> None:
        """Lay `found` over what is known; what it does not touch stays."""
        memory, now = self._loaded(), self._now()
        known = self._zone(zone)
        before = {(factor.span, factor.scope, factor.system): factor for factor in known.factors}
        fresh = [_dated(factor, before.get((factor.span, factor.scope, factor.system)), now) for factor in found]
        over = [*(factor.span for factor in fresh), *([wanted] if self._answers_whole else [])]
        kept = _outside(known.factors, over)
        horizon = now - KEPT
        known.factors = sorted((f for f in (*kept, *fresh) if f.span.end > horizon), key=lambda factor: factor.span)
        known.since = wanted.start if known.since is None else min(known.since, wanted.start)
        known.until = now if known.until is None else max(known.until, now)
        self._file.save(memory)

    def _checked(self, found: Sequence[Factor]) -> Sequence[Factor]:
        if any(factor.basis is not self._basis for factor in found):
            raise SourceError(f"{self.name}: expected {self._basis} factors, found others; they are never mixed")
        return found

    def _is_fresh(self, asked_ns: int) -> bool:
        age_ns = self._clock.monotonic_ns() - asked_ns
        return age_ns < self._provider.refresh_seconds * FRESH_RATIO * NANOSECONDS_PER_SECOND

    def _loaded(self) -> ProviderMemory:
        if self._memory is None:
            self._memory = self._file.load()
        return self._memory

    def _zone(self, zone: str) -> ZoneMemory:
        return self._loaded().zones.setdefault(zone, ZoneMemory())

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.utc_ns() / NANOSECONDS_PER_SECOND, UTC)


def _wait_seconds(error: KwhereError, times: int) -> float | None:
    """Return how long to leave a service alone after `times` failures in a row; None: until its key changes."""
    if isinstance(error, Unavailable):
        if error.reason in ("denied", "secret"):
            return None
        if error.reason == "zone":
            return ZONE_RETRY_SECONDS
        if error.retry_after_seconds is not None:
            return max(FIRST_RETRY_SECONDS, error.retry_after_seconds)
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(times - 1, 10), MOST_RETRY_SECONDS)


def _dated(factor: Factor, before: Factor | None, now: datetime) -> Factor:
    """Return `factor` with the date of its publication: the first one for the same figure, a later one for another."""
    published = min(factor.published_at, now)
    if before is None:
        return replace(factor, published_at=published)
    if (before.grams_per_kwh, before.quality) == (factor.grams_per_kwh, factor.quality):
        return before
    return replace(factor, published_at=published if published > before.published_at else now)


def _outside(factors: Sequence[Factor], spans: Sequence[Span]) -> list[Factor]:
    """Return the factors that touch none of `spans`."""
    starts = sorted(span.start for span in spans)
    ends = sorted(span.end for span in spans)
    # It touches none where as many spans end by its start as begin before its end.
    return [f for f in factors if bisect_right(ends, f.span.start) == bisect_left(starts, f.span.end)]


def _holds(outer: Span, inner: Span) -> bool:
    """Return whether a forecast asked for `outer` answers for `inner` but for some minutes at its end."""
    return outer.start <= inner.start and inner.end <= outer.end + timedelta(hours=1)
