"""What is dropped when it is old, and what is late after that."""

from sqlalchemy import Engine, func, select
from tests.account_site import J, Site, all_rows, fixed, keep, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal

from kwhere.database import schema
from kwhere.database.retention import buckets_from, drop_old
from kwhere.database.settings import RetentionSettings, SiteSettings

HOUR_NS = 3600 * SECOND_NS
DAY_NS = 24 * HOUR_NS
KEEP = RetentionSettings(slots_hours=48, buckets_days=14, hours_days=31)


def age(site: Site, days: int) -> dict[str, int]:
    site.clock.now_ns = T0_NS + days * DAY_NS
    return drop_old(site.engine, KEEP, site.reader_grid, site.clock.now_ns)


def counts(site: Site) -> tuple[int, ...]:
    tables = (schema.slots, schema.usage_5m, schema.node_5m, schema.usage_hour, schema.usage_day)
    return tuple(len(all_rows(site, table)) for table in tables)


def total_uj(site: Site, table: str) -> int:
    held = schema.metadata.tables[table].c
    query = select(func.sum(held.cpu_dynamic_uj) + func.sum(held.cpu_idle_uj))
    with site.engine.connect() as connection:
        return int(connection.execute(query).scalar_one() or 0)


def test_each_resolution_goes_in_its_time(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(), slots=5))
    site.roll()
    before = counts(site)

    steps = []
    for days in (1, 3, 15, 40):
        age(site, days)
        steps.append(counts(site))

    assert before == (5, 4, 1, 4, 4)
    assert steps == [(5, 4, 1, 4, 4), (0, 4, 1, 4, 4), (0, 0, 0, 4, 4), (0, 0, 0, 0, 4)]
    assert site.reader.unit("c1", "slurm", "a").energy_total_uj == 48_000 * J


def test_what_waits_to_be_summed_is_not_dropped(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(), slots=5))

    age(site, 20)
    waiting = counts(site)
    site.roll()
    age(site, 20)

    assert waiting[1:] == (4, 1, 0, 0)
    assert counts(site)[1:] == (0, 0, 4, 4)


def test_a_slot_later_than_its_buckets_is_added_to_its_hour(engine: Engine) -> None:
    site, journal = Site(engine, SiteSettings(zone="FR")), HandJournal()
    keep(site, fixed(100.0))
    site.take(worked_case(journal, slots=10))
    site.clock.now_ns += 2 * HOUR_NS
    site.roll()
    age(site, 20)
    worked_case(journal, slots=10)

    site.take(journal)
    site.roll()
    site.roll()

    assert counts(site)[1:3] == (0, 0)
    assert total_uj(site, "usage_hour") == total_uj(site, "usage_day") == journal.control_uj
    # A: 160 W for 20 min at 100 g/kWh.
    grams = site.reader.unit("c1", "slurm", "a").emissions_grams
    assert grams is not None
    assert abs(grams - 16 / 3) < 1e-9
    with site.engine.connect() as connection:
        assert set(connection.execute(select(schema.corrections.c.basis)).scalars()) == {"hours"}


def test_the_mark_of_dropped_buckets_never_goes_back(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal()))
    site.roll()
    age(site, 20)
    with engine.connect() as connection:
        first = buckets_from(connection)

    age(site, 16)

    with engine.connect() as connection:
        assert buckets_from(connection) == first == T0_NS + 6 * DAY_NS
