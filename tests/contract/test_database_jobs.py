"""Jobs found by their ids as people write them, over SQLite and PostgreSQL."""

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site
from tests.journals import HandJournal, figures, key, system, unit
from tests.managed_site import said, tell

from kwhere.database.records import UnitQuery
from kwhere.reports.job_words import parse_jobs

SLUID = "s0123456789ABC"


@pytest.fixture
def jobs(engine: Engine) -> Site:
    """Array 40 with the tasks 1 to 3, of which the last keeps the number; het job 50; 60 by SLUID; OAR's array 70."""
    site, journal = Site(engine), HandJournal()
    slurm = ("40", "41", "42", "50", "51", "60")
    oar = ("70", "71")
    entries = [unit(key(each), figures(J, 0)) for each in slurm]
    entries += [unit(key(each, "oar"), figures(J, 0)) for each in oar]
    journal.append([*entries, system(figures(0, 0))])
    site.take(journal)
    tell(
        engine,
        *(
            said(raw, 0, 60, tags={"job": f"40_{task}", "array_job": "40"})
            for raw, task in (("41", 1), ("42", 2), ("40", 3))
        ),
        said("50", 0, 60, state="timeout", queue="gpu", tags={"job": "50+0", "het_job": "50"}),
        said("51", 0, 60, state="failed", queue="gpu", tags={"job": "50+1", "het_job": "50"}),
        said("60", 0, 60, run=SLUID),
    )
    return site


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("40", "40 41 42", id="case_users_27_array"),
        pytest.param("40_2", "42", id="case_users_25_task"),
        pytest.param("40_2.0", "42", id="case_users_25_step_of_a_task"),
        pytest.param("40_[1-2,9%2]", "41 42", id="case_users_29"),
        pytest.param("41.batch", "41", id="case_users_25_batch"),
        pytest.param("50", "50 51", id="case_users_26_parent"),
        pytest.param("50+1", "51", id="case_users_25_het"),
        pytest.param(SLUID, "60", id="case_users_25_sluid"),
        pytest.param(f"{SLUID}.extern", "60", id="case_users_25_step_of_a_sluid"),
        pytest.param("40-42,60", "40 41 42 60", id="case_users_30"),
        pytest.param("4", "", id="no part of a number"),
        pytest.param("40_22", "", id="no part of a task"),
        pytest.param("70,71", "70 71", id="of another manager"),
    ],
)
def test_jobs_are_found_as_people_write_them(jobs: Site, words: str, found: str) -> None:
    query = UnitQuery(jobs=parse_jobs([words]))

    assert sorted(item.unit for item in jobs.reader.units(query).items) == found.split()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param(UnitQuery(states=("timeout",)), "50", id="case_users_33"),
        pytest.param(UnitQuery(states=("timeout", "failed")), "50 51", id="any of several"),
        pytest.param(UnitQuery(states=("cancelled",)), "", id="case_users_33_no_step"),
        pytest.param(UnitQuery(queue="gpu"), "50 51", id="queue"),
    ],
)
def test_states_and_queues_are_those_of_the_job(jobs: Site, query: UnitQuery, found: str) -> None:
    assert sorted(item.unit for item in jobs.reader.units(query).items) == found.split()
