"""A live provider, the pass that asks it and the account: late figures, an outage, a marginal provider beside."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests import emission_services as services
from tests.account_site import T0, Site, fixed, keep, minutes, worked_case
from tests.databases import sqlite_engine
from tests.emission_services import SECRET, Asked, HandClock, Said, said, serving
from tests.journals import HandJournal

from kwhere.database import schema
from kwhere.database.settings import SiteSettings
from kwhere.emission_factors.choose import QualityChange, build_chooser
from kwhere.emission_factors.provider import Basis, Quality
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.server.factor_pass import FactorPass

QUARTER = timedelta(minutes=15)


class Turn:
    """Leave to go on for ever."""

    def goes_on(self) -> bool:
        return True


class Account:
    """Half an hour of the worked case from 16:00, in a zone that RTE and WattTime know."""

    def __init__(self, tmp_path: Path, clock: HandClock, settings: EmissionFactorSettings) -> None:
        self.clock = clock
        self.changes: list[QualityChange] = []
        engine = sqlite_engine(tmp_path / "account.sqlite")
        self.site = Site(engine, SiteSettings(time_zone="UTC", zone="FR"))
        self.site.take(worked_case(HandJournal("node-a"), slots=30))
        chooser = build_chooser(
            settings, clock, zones={"site.zone": "FR"}, state_dir=tmp_path / "state", report=self.changes.append
        )
        self.factor_pass = FactorPass(engine, self.site.settings, chooser, clock)

    def ask(self) -> None:
        """Let the pass run as often as it is due, then derive."""
        self.site.clock.now_ns = self.clock.utc_ns()
        if self.factor_pass.is_due():
            self.factor_pass.run(Turn())
        self.site.roll()

    def grams(self) -> dict[str, tuple[float, str]]:
        """Return grams and quality of unit A by provider: it drew 30 · 9600 J = 0.08 kWh."""
        record = self.site.reader.unit("c1", "slurm", "a")
        return {each.provider: (round(each.grams, 6), str(each.quality)) for each in record.emissions}

    def rows(self) -> int:
        with self.site.engine.connect() as connection:
            count: int = connection.execute(select(func.count()).select_from(schema.factors)).scalar_one()
            return count


def by_quarters(clock: HandClock) -> services.Route:
    """RTE as ever, half an hour late: 100 g/kWh at 16:00, 10 more each quarter."""

    def route(asked: Asked) -> Said:
        start, end = (services.parse(part) for part in asked.query["where"].split("'")[1::2])
        rows = [
            {"taux_co2": 100 + 10 * ((at - T0) // QUARTER), "date_heure": at.isoformat()}
            for at in services.steps(start, min(end, clock.now - 2 * QUARTER + timedelta(seconds=1)), 15)
            if start < at <= clock.now - 2 * QUARTER and abs(at - T0) < timedelta(days=1)
        ]
        newest_first = rows[::-1]
        offset = int(asked.query["offset"])
        return said({"total_count": len(rows), "results": newest_first[offset : offset + 100]})

    return route


def test_late_figures_recompute_what_stood_in_for_them(tmp_path: Path) -> None:
    clock = HandClock(T0 + timedelta(minutes=31))
    with serving(by_quarters(clock), clock) as service:
        settings = EmissionFactorSettings(reporting="rte", providers={"rte": {"url": service.url}})
        account = Account(tmp_path, clock, settings)

        account.ask()
        # 16:00 to 16:15 is known, 100; the last good one stands in for the quarter after it.
        assert account.grams()["rte"] == (8.0, "estimated")

        for _ in range(4):
            clock.ahead(minutes=15)
            account.ask()

    # Half at 100, half at 110.
    assert account.grams() == {"rte": (8.4, "measured")}
    assert [change.after for change in account.changes] == ["rte FR estimated"]


@pytest.mark.slow
def test_an_outage_shows_its_quality_writes_little_and_heals(tmp_path: Path) -> None:
    clock = HandClock(T0 + timedelta(minutes=31))
    with serving(by_quarters(clock), clock) as service:
        settings = EmissionFactorSettings(reporting="rte", providers={"rte": {"url": service.url}}, last_good_hours=0)
        service.fault = Said(b"<html>down</html>", 502)
        account = Account(tmp_path, clock, settings)
        for _ in range(4 * 60):
            account.ask()
            clock.ahead(minutes=1)

        # Nothing was ever known: France's mean of 44.18, and it says so.
        assert account.grams() == {"static": (3.5344, "static")}
        assert account.rows() <= 4
        assert len(service.asked) <= 11

        service.fault = None
        for _ in range(24):
            account.ask()
            clock.ahead(minutes=5)

    assert account.grams() == {"rte": (8.4, "measured")}
    assert [(change.after, "502" in change.reason) for change in account.changes] == [("static FR static", True)]


def test_marginal_factors_stand_beside_and_are_added_to_nothing(tmp_path: Path) -> None:
    clock = HandClock(T0 + timedelta(minutes=90))
    key = tmp_path / "key"
    key.write_text(SECRET)
    marginal = services.watttime_route(clock, "co2_moer")
    with serving(by_quarters(clock), clock) as rte, serving(marginal, clock) as watttime:
        account = Account(
            tmp_path,
            clock,
            EmissionFactorSettings(
                reporting="rte",
                beside=("watttime", "neso"),
                providers={
                    "rte": {"url": rte.url},
                    "watttime": {
                        "url": watttime.url,
                        "username": "site",
                        "secret_file": str(key),
                        "zones": {"FR": "CAISO_NORTH"},
                    },
                },
            ),
        )
        account.ask()
        record = account.site.reader.unit("c1", "slurm", "a")

    by_provider = {each.provider: each for each in record.emissions}
    # 0.08 kWh at 1016 lb/MWh = 460.849848 g/kWh.
    assert by_provider["watttime"].grams == pytest.approx(36.86798784)
    assert (str(by_provider["watttime"].basis), str(by_provider["rte"].basis)) == ("marginal", "average")
    assert record.emissions_grams == pytest.approx(8.4)


def test_of_what_is_in_force_the_one_that_grams_are_made_of_comes_first(tmp_path: Path) -> None:
    """The country's mean stood in and still lies there; of overlapping publications the newest is in force."""
    site = Site(sqlite_engine(tmp_path / "account.sqlite"))
    late = minutes(-30, 600)
    keep(site, fixed(44.18, provider="static"))
    keep(site, fixed(90, provider="watttime", quality=Quality.MEASURED, basis=Basis.MARGINAL), reporting=False)
    keep(site, fixed(21, late, provider="rte", quality=Quality.ESTIMATED))
    keep(site, fixed(22, minutes(-15, 5), provider="rte", quality=Quality.MEASURED, published_at=T0))

    found = site.reader.emission_factors()

    assert [(each.provider, each.grams_per_kwh) for each in found] == [("rte", 22), ("static", 44.18), ("watttime", 90)]
    assert len(site.reader.emission_factors(minutes(0, 1))) == 4
