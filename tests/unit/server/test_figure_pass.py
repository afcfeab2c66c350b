"""The pass that notes PUE, prices and water: at start, and when the PUE file is another."""

from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.account_site import Site, fixed, keep, worked_case
from tests.journals import SECOND_NS, HandJournal

from kwhere.core.errors import ConfigError, SourceError
from kwhere.database.engine import writing
from kwhere.database.pue import noted_pue
from kwhere.database.settings import SiteSettings
from kwhere.server.figure_pass import FigurePass, check_pue


class Going:
    def goes_on(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pue.csv"
    path.write_text("start,pue\n2025-01-01,1.5\n")
    return path


def test_a_file_that_changes_is_read_again(engine: Engine, file: Path) -> None:
    site = Site(engine, SiteSettings(zone="FR", pue_file=file))
    keep(site, fixed(100.0))
    site.take(worked_case(HandJournal(), slots=60))
    work = FigurePass(engine, site.settings, site.clock)
    work.run(Going())
    site.roll()
    before = site.reader.unit("c1", "slurm", "a").emissions_grams
    file.write_text("start,pue\n2025-01-01,2.0\n")

    too_early = work.is_due()
    site.clock.now_ns += 10 * SECOND_NS
    assert work.is_due()
    work.run(Going())
    site.roll()

    assert not too_early
    assert not work.is_due()
    assert before == pytest.approx(24.0)
    assert site.reader.unit("c1", "slurm", "a").emissions_grams == pytest.approx(32.0)


def test_a_file_that_breaks_leaves_what_is_in_force(engine: Engine, file: Path) -> None:
    site = Site(engine, SiteSettings(pue_file=file))
    work = FigurePass(engine, site.settings, site.clock)
    work.run(Going())
    file.write_text("<html>")
    site.clock.now_ns += 10 * SECOND_NS

    with pytest.raises(SourceError, match=r"pue\.csv line 1: expected a column start"):
        work.run(Going())

    with writing(engine).connect() as connection:
        assert noted_pue(connection).values == (1.0, 1.5)
    site.clock.now_ns += 10 * SECOND_NS
    assert work.is_due()


def test_a_server_does_not_start_on_a_bad_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"site\.pue_file: .*cannot be read"):
        check_pue(SiteSettings(pue_file=tmp_path / "none.csv"))
