"""A site in a database that a test fills by hand and reads: a clock, agents, the reader."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, Table, select
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.core.timespan import Span
from kwhere.database.cursors import find_target
from kwhere.database.engine import writing
from kwhere.database.factors import keep_factors
from kwhere.database.grid import Grid
from kwhere.database.reader import Reader
from kwhere.database.rollup import roll_days, roll_hours
from kwhere.database.settings import SiteSettings
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target

T0 = datetime(2025, 11, 24, 16, tzinfo=UTC)
SITE = SiteSettings(time_zone="UTC")
J = 1_000_000


class HandClock:
    """A clock that a test sets."""

    def __init__(self, utc_ns: int) -> None:
        self.now_ns = utc_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def utc_ns(self) -> int:
        return self.now_ns


class Site:
    """A database that a test fills and reads."""

    def __init__(self, engine: Engine, settings: SiteSettings = SITE) -> None:
        self.engine = engine
        self.settings = settings
        self.clock = HandClock(T0_NS)
        self.booker = PageBooker(engine, Grid(settings.tz), 30.0)
        self.reader = Reader(engine, self.clock, settings)
        self.reader_grid = Grid(settings.tz)
        self._read: dict[str, str] = {}

    def take(self, journal: HandJournal, cluster: str = "c1") -> None:
        """Read all that a journal holds; the clock stands at the newest slot's end, if not later."""
        self.clock.now_ns = max(self.clock.now_ns, journal.end_ns)
        target = Target(cluster, f"http://{cluster}.{journal.node}:9810")
        while True:
            page = journal.page(self._read.get(target.key))
            outcome = self.booker.book(Received(target, page, self.clock.now_ns, 0))
            self._read[target.key] = str(outcome.after)
            if not outcome.more:
                return

    def go_on(self, journal: HandJournal, now_ns: int, cluster: str = "c1") -> None:
        """Read on where the database stands, as a server does that has just started."""
        self.clock.now_ns = now_ns
        target = Target(cluster, f"http://{cluster}.{journal.node}:9810")
        with self.engine.connect() as connection:
            row = find_target(connection, target.key)
        if row is not None:
            self._read[target.key] = str(row.cursor)
        self.take(journal, cluster)

    def roll(self) -> None:
        while roll_hours(self.engine, self.settings, self.clock.now_ns):
            pass
        while roll_days(self.engine, self.settings, self.clock.now_ns):
            pass


def worked_case(journal: HandJournal, slots: int = 1) -> HandJournal:
    """energy.md §2: A 160 W (80 dynamic), B 20 W idle, 10 CPUs of which A has 8; slots of 60 s."""
    a = figures(4800 * J, 4800 * J, cpu_ns=480 * SECOND_NS, cpu_allocated_ns=480 * SECOND_NS, memory_peak_bytes=4096)
    b = figures(0, 1200 * J, cpu_allocated_ns=120 * SECOND_NS)
    for _ in range(slots):
        entries = [unit(key("a"), a, user="alice", project="p1", name="cfd"), unit(key("b"), b, user="bob")]
        journal.append([*entries, system(figures(0, 0)), unallocated(figures(0, 0))])
    return journal


def minutes(first: int, last: int) -> Span:
    return Span(T0 + timedelta(minutes=first), T0 + timedelta(minutes=last))


def fixed(grams_per_kwh: float, span: Span | None = None, **changes: object) -> Factor:
    factor = Factor(
        provider="fixed",
        zone="FR",
        span=span or Span(datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)),
        grams_per_kwh=grams_per_kwh,
        published_at=datetime(2025, 1, 1, tzinfo=UTC),
        basis=Basis.AVERAGE,
        scope=Scope.LIFECYCLE,
        system=System.PRODUCTION,
        quality=Quality.STATIC,
        source="by hand",
    )
    return replace(factor, **changes)  # type: ignore[arg-type]


def keep(site: Site, *factors: Factor, reporting: bool = True) -> None:
    with writing(site.engine).begin() as connection:
        keep_factors(connection, "FR", factors, site.clock.now_ns, reporting=reporting)


def all_rows(site: Site, table: Table) -> list[tuple[object, ...]]:
    with site.engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(select(table)))
