"""What stands beside a unit: earlier ones of its name, its runs, and up to when its grams are known."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine
from tests.account_site import SITE, J, Site, fixed, keep
from tests.journals import SECOND_NS, HandJournal, figures, key, system, unit
from tests.managed_site import said, tell

from kwhere.core.errors import NotFound
from kwhere.database.grid import from_ns
from kwhere.database.visibility import AccountName, Visibility


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine, SITE.model_copy(update={"zone": "FR"}))


def test_earlier_units_of_the_same_user_and_name(site: Site) -> None:
    words = {"user": "alice", "name": "cfd"}
    tell(
        site.engine,
        said("1", 0, 10, **words),
        said("2", 20, 30, **words),
        said("3", 25, 35, user="bob", name="cfd"),
        said("4", 26, 36, user="alice", name="other"),
        said("5", 40, 50, **words),
        said("6", 60, 70, **words),
    )
    fifth = site.reader.unit("c1", "slurm", "5")

    assert [found.unit for found in site.reader.earlier_of_name(fifth)] == ["2", "1"]
    assert [found.unit for found in site.reader.earlier_of_name(fifth, 1)] == ["2"]
    assert site.reader.earlier_of_name(replace(fifth, user=None)) == ()
    assert site.reader.earlier_of_name(replace(fifth, name=None)) == ()
    nobody = site.reader.seen_by(Visibility(users=frozenset({AccountName("bob")})))
    assert nobody.earlier_of_name(fifth) == ()
    with pytest.raises(NotFound):
        nobody.unit("c1", "slurm", "5")


def test_all_runs_of_a_requeued_job_are_found_newest_first(site: Site) -> None:
    tell(site.engine, said("7", 0, 60, state="requeued"), said("7", 100, 160))

    assert [(run.state, run.run) for run in site.reader.unit_runs("c1", "slurm", "7")] == [
        ("completed", "7@1764000100"),
        ("requeued", "7@1764000000"),
    ]


def test_grams_say_up_to_when_they_are_known(site: Site) -> None:
    keep(site, fixed(100.0))
    journal = HandJournal()
    journal.append([unit(key("a"), figures(1000 * J, 0)), system(figures(0, 0))])
    site.take(journal)

    assert site.reader.unit("c1", "slurm", "a").emissions_until is None

    site.roll()
    first_ns = journal.end_ns
    assert site.reader.unit("c1", "slurm", "a").emissions_until == from_ns(first_ns)

    journal.append([unit(key("a"), figures(1000 * J, 0)), system(figures(0, 0))])
    site.take(journal)
    behind = site.reader.unit("c1", "slurm", "a")
    assert (behind.emissions_until, behind.energy_total_uj) == (from_ns(first_ns), 2000 * J)

    site.roll()
    assert site.reader.unit("c1", "slurm", "a").emissions_until == from_ns(first_ns + 60 * SECOND_NS)
