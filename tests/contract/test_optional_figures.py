"""Average and marginal grams, cost, water, embodied carbon: through reader, API, pages and CLI, worked out by hand."""

import csv
import io
from datetime import date

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.account_site import Site, fixed, keep, worked_case
from tests.asgi_client import AsgiClient
from tests.journals import HandJournal

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.cli.unit_fields import parse_format
from kwhere.cli.unit_output import Output, Style, write_units
from kwhere.cli.unit_page import report
from kwhere.cli.units import units
from kwhere.database.figure_settings import CostSettings, EmbodiedEntry, TariffEntry, WaterEntry
from kwhere.database.records import UsageBy
from kwhere.database.settings import SiteSettings
from kwhere.emission_factors.provider import Basis
from kwhere.reports.optional import OptionalFigures
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages

SINCE = date(2025, 1, 1)
EVERYTHING = SiteSettings(
    zone="FR",
    pue_ratio=1.5,
    cost=CostSettings(currency="EUR", tariffs=(TariffEntry(since=SINCE, price_per_kwh=0.25),)),
    water=(WaterEntry(since=SINCE, site_litres_per_kwh=2.0, grid_litres_per_kwh=1.0),),
    embodied=(EmbodiedEntry(nodes="n*", kilograms=876, kilograms_min=500, kilograms_max=1752, life_years=5),),
)
ALL_ON = OptionalFigures(currency="EUR", water=True, embodied=True)


@pytest.fixture
def site(engine: Engine) -> Site:
    """An hour of the worked case: A 0.16 kWh, B 0.02 kWh, on node n1 with 10 CPUs."""
    found = Site(engine, EVERYTHING)
    keep(found, fixed(100.0))
    keep(found, fixed(400.0, provider="watttime", basis=Basis.MARGINAL), reporting=False)
    found.take(worked_case(HandJournal(), slots=60))
    found.roll()
    return found


def open_site(site: Site, optional: OptionalFigures) -> AsgiClient:
    sources = Sources(account=site.reader, clock=site.clock, optional=optional)
    app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(sources))
    return AsgiClient(app)


@pytest.fixture
def client(site: Site) -> AsgiClient:
    return open_site(site, ALL_ON)


def test_a_unit_has_every_figure_apart(client: AsgiClient) -> None:
    found = client.get("/api/v1/units/c1/slurm/a").json()

    # 0.16 kWh x PUE 1.5 = 0.24 kWh: 24 g average, 96 g marginal, 0.06 EUR; water 0.16 x (2 + 1 x 1.5) = 0.56 l.
    assert found["emissions_grams"] == pytest.approx(24.0)
    assert found["emissions_marginal_grams"] == pytest.approx(96.0)
    assert [(e["basis"], e["reporting"]) for e in found["emissions"]] == [("average", True), ("marginal", False)]
    assert (found["cost"], found["cost_currency"]) == (pytest.approx(0.06), "EUR")
    assert found["costs"] == [{"currency": "EUR", "amount": pytest.approx(0.06), "is_whole": True}]
    assert found["water_litres"] == pytest.approx(0.56)
    # 876 kg over 5 x 8760 h = 20 g/h; 8 of 10 CPUs for 1 h: 16 g, at most twice that.
    made = found["embodied_grams"]
    assert (made["value"], made["max"], made["is_whole"]) == (pytest.approx(16.0), pytest.approx(32.0), True)
    assert made["min"] == pytest.approx(16.0 * 500 / 876)
    assert found["energy_joules_total"] == 576_000.0


@pytest.mark.parametrize("by", list(UsageBy))
def test_sums_offer_both_bases_and_cost(client: AsgiClient, by: UsageBy) -> None:
    found = client.get("/api/v1/usage", params={"by": by, "from": "2025-11-24T16:00:00Z", "to": "2025-11-24T17:00:00Z"})

    rows = found.json()["items"]
    # All: 0.18 kWh x 1.5 = 0.27 kWh.
    assert sum(row["emissions_grams"] or 0 for row in rows) == pytest.approx(27.0)
    assert sum(row["emissions_marginal_grams"] or 0 for row in rows) == pytest.approx(108.0)
    assert sum(row["cost"] or 0 for row in rows) == pytest.approx(0.0675)
    assert sum(row["water_litres"] or 0 for row in rows) == pytest.approx(0.63)
    assert {e["basis"] for row in rows for e in row["emissions"]} == {"average", "marginal"}


def test_csv_has_columns_for_what_is_on_alone(site: Site, client: AsgiClient) -> None:
    on = list(csv.DictReader(io.StringIO(client.get("/api/v1/units", params={"format": "csv"}).text)))
    off = list(csv.DictReader(io.StringIO(open_site(site, OptionalFigures()).get("/api/v1/units?format=csv").text)))
    usage = list(csv.DictReader(io.StringIO(client.get("/api/v1/usage", params={"format": "csv"}).text)))

    assert float(on[0]["cost"]) == pytest.approx(0.06)
    assert on[0]["cost_currency"] == "EUR"
    assert float(on[0]["embodied_grams_max"]) == pytest.approx(32.0)
    assert not {"cost", "water_litres", "embodied_grams"} & set(off[0])
    assert "emissions_marginal_grams" in off[0]
    assert {"cost", "water_litres"} <= set(usage[0])
    assert "embodied_grams" not in usage[0]


def test_pages_show_each_figure_with_what_it_is(client: AsgiClient) -> None:
    unit, usage = client.get("/units/c1/slurm/a").text, client.get("/usage").text

    for text in (
        "CO₂e, average",
        "CO₂e, marginal",
        "0.0600 EUR",
        "0.560 l",
        "Embodied CO₂e",
        "none is in a sum with another",
    ):
        assert text in unit
    assert 'Cost <span class="unit">EUR</span>' in usage
    assert ">0.0675<" in usage


def test_pages_without_cost_have_no_column_for_it(site: Site) -> None:
    assert "Cost" not in open_site(site, OptionalFigures()).get("/usage").text


def test_the_report_of_a_unit_says_which_is_which(client: AsgiClient) -> None:
    lines = [line.strip() for line in report(client.get("/api/v1/units/c1/slurm/a").json())]

    assert "CO2e: 24.0 g at 150 g/kWh with PUE (zone FR, fixed, average, static)" in lines
    assert "CO2e marginal: 96.0 g (zone FR, watttime, marginal, static)" in lines
    assert "Cost: 0.0600 EUR" in lines
    assert any(line.startswith("Embodied CO2e: 16.0 g (9.13 g to 32.0 g") for line in lines)
    assert "Water: 0.560 l" in lines


def test_format_chooses_columns(client: AsgiClient, capsys: pytest.CaptureFixture[str]) -> None:
    items = client.get("/api/v1/units").json()["items"]

    write_units(items, Output(Style.CSV, parse_format("unit,emissions_grams,emissions_marginal_grams,cost")))
    write_units(items, Output(chosen=parse_format("unit,cost,name")))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "unit,emissions_grams,emissions_marginal_grams,cost"
    assert [round(float(cell), 6) for cell in lines[1].split(",")[1:]] == [24.0, 96.0, 0.06]
    assert lines[3].split() == ["unit", "cost", "name"]
    assert lines[4].split() == ["a", "0.06", "cfd"]


def test_an_unknown_column_is_a_usage_error() -> None:
    outcome = CliRunner().invoke(units, ["--format", "unit,watts"])

    assert outcome.exit_code == 2
    assert "--format: expected a field that --helpformat lists, found 'watts'" in outcome.output
    assert "embodied_grams_min" in CliRunner().invoke(units, ["--helpformat"]).output


def test_without_a_type_of_its_node_there_is_no_embodied_figure(engine: Engine) -> None:
    other = SiteSettings(embodied=(EmbodiedEntry(nodes="gpu-*", kilograms=3500),))
    site = Site(engine, other)
    site.take(worked_case(HandJournal(), slots=1))

    assert site.reader.unit("c1", "slurm", "a").embodied is None
