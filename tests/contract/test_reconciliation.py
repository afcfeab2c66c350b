"""A node with a BMC, RAPL, psys and hwmon, over each store of series: who agrees, who does not, what it may be."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from tests.asgi_client import AsgiClient
from tests.fake_account import FakeAccount, FixedClock
from tests.meters_world import CLUSTER, NODE, START_S, Wiring, scrape_node
from tests.prometheus_server import PrometheusServer, running_prometheus

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.energy.reconciliation import Verdict
from kwhere.reports import agreement
from kwhere.reports.agreement import Agreement, agreement_of
from kwhere.reports.reconciliation import Reconciliation, reconcile_node
from kwhere.reports.sources import Sources
from kwhere.series.charts import NodeRef
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings, PrometheusStoreSettings
from kwhere.series.store import ScrapedSample, SeriesStore
from kwhere.web.app import build_pages

SECONDS = 1860
"""Half an hour and a minute, so that the last window of 2 min within the first half hour is whole."""
_numbers = count()
Fill = Callable[[Sequence[ScrapedSample]], SeriesStore]


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with running_prometheus() as server:
        yield server


@pytest.fixture(params=["embedded", pytest.param("prometheus", marks=pytest.mark.service("prometheus"))])
def fill(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fill]:
    opened: list[SeriesStore] = []

    def store_of(samples: Sequence[ScrapedSample]) -> SeriesStore:
        if request.param == "prometheus":
            server: PrometheusServer = request.getfixturevalue("prometheus")
            server.write(samples)
            opened.append(PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=10)))
        else:
            store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(threads=1), SystemClock())
            store.append(samples)
            opened.append(store)
        return opened[-1]

    yield store_of
    for store in opened:
        store.close()


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(START_S + seconds, UTC)


def reconciled(fill: Fill, wiring: Wiring) -> tuple[Reconciliation, Agreement]:
    """Return the first half hour of a node of its own: the tests share one Prometheus."""
    node = f"{NODE}-{next(_numbers)}"
    store = fill(scrape_node(wiring, SECONDS, node))
    found = reconcile_node(store, NodeRef(CLUSTER, node), Span(moment(0), moment(1800)))
    return found, agreement_of(found)


def test_a_bmc_and_its_components_agree(fill: Fill) -> None:
    found, words = reconciled(fill, Wiring())

    assert found.platform is not None
    assert found.platform.source == "redfish"
    assert {track.source for track in found.inside} == {"powercap"}
    assert found.residual is not None
    assert found.residual.verdict is Verdict.AGREES
    assert found.residual.within_ratio < 0.05
    assert words.sentence.startswith("BMC (redfish) agrees with the components within ±")
    assert not words.disagrees
    assert words.causes == ()


def test_what_lies_beside_the_components_is_the_board_and_the_losses(fill: Fill) -> None:
    """Wall = 1.08 x (inside + 45 W): beside the components 48.6 W and 8 % of them; of which 50 W are idle."""
    found, _ = reconciled(fill, Wiring())

    assert found.residual is not None
    seconds = found.residual.windows * found.window_seconds
    mean_inside = found.residual.inside_joules / seconds
    assert found.residual.joules / seconds == pytest.approx(48.6 + 0.08 * mean_inside, abs=2.0)
    assert found.residual.slope_ratio == pytest.approx(0.08, abs=0.04)
    assert found.other_idle_joules is not None
    assert found.other_dynamic_joules is not None
    assert found.other_idle_joules / seconds == pytest.approx(50.0, abs=1.0)
    assert found.other_idle_joules + found.other_dynamic_joules == pytest.approx(found.residual.joules)


def test_meters_of_the_whole_node_are_compared_with_the_one_that_speaks(fill: Fill) -> None:
    found, words = reconciled(fill, Wiring())

    ratios = {each.track.source: each.shared.difference_ratio for each in found.comparisons if each.shared}
    assert ratios["hwmon_power"] == pytest.approx(-0.01, abs=0.01)
    assert ratios["psys"] == pytest.approx(1 / 1.08 - 1, abs=0.01)
    assert "psys is 7." in words.sentence or "psys is 8." in words.sentence


@pytest.mark.parametrize(
    ("wiring", "verdict", "begins", "cause"),
    [
        (
            Wiring(redfish=0.6, idle_watts=300),
            Verdict.BELOW_COMPONENTS,
            "BMC (redfish) is 1",
            agreement.CAUSE_ONE_SUPPLY,
        ),
        (
            Wiring(redfish=0.4),
            Verdict.AGREES,
            "BMC (redfish) is no longer used",
            agreement.CAUSE_ONE_SUPPLY,
        ),
        (
            Wiring(redfish=0.75, hwmon_power=None, psys=None),
            Verdict.MISSES_LOAD,
            "BMC (redfish) shows only",
            agreement.CAUSE_ONE_SUPPLY,
        ),
        (Wiring(gpu_watts=300, psys=None), Verdict.UNSTEADY, "BMC (redfish) departs", agreement.CAUSE_UNMEASURED),
        (Wiring(psys=0.25), Verdict.AGREES, "BMC (redfish) agrees", agreement.CAUSE_PSYS),
    ],
    ids=[
        "below its components",
        "refused by the agent",
        "part of the load",
        "an unmeasured GPU",
        "psys in another unit",
    ],
)
def test_meters_that_disagree_are_told_with_a_cause(
    fill: Fill, wiring: Wiring, verdict: Verdict, begins: str, cause: str
) -> None:
    found, words = reconciled(fill, wiring)

    assert found.residual is not None
    assert (found.residual.verdict, words.disagrees) == (verdict, True)
    assert words.sentence.startswith(begins)
    assert any(text.startswith(cause) for text in words.causes)
    assert words.short != agreement.NO_SECOND


@pytest.mark.parametrize(
    ("wiring", "sentence"),
    [
        (
            Wiring(redfish=None, hwmon_power=None, psys=None),
            "No second source here: the node has no meter of its whole power.",
        ),
        (
            Wiring(powercap=False, hwmon_power=None, psys=None),
            "No second source here: BMC (redfish) alone is measured.",
        ),
    ],
    ids=["RAPL alone", "BMC alone"],
)
def test_a_meter_alone_is_told_so(fill: Fill, wiring: Wiring, sentence: str) -> None:
    found, words = reconciled(fill, wiring)

    assert (words.sentence, words.short) == (sentence, agreement.NO_SECOND)
    assert not words.is_checked
    assert not words.disagrees
    assert found.residual is None


def test_a_bmc_that_does_not_answer_leaves_windows_out_and_draws_no_zero(fill: Fill) -> None:
    """Down for 6 of 30 minutes: those windows are left out, the rest agrees as before."""
    found, words = reconciled(fill, Wiring(down_from_s=600, down_until_s=960, hwmon_power=None))

    assert found.platform is not None
    assert found.residual is not None
    assert found.left_out_ratio is not None
    assert 3 / 15 <= found.left_out_ratio <= 6 / 15
    assert found.residual.within_ratio < 0.05
    assert not words.disagrees


def test_too_short_to_tell(fill: Fill) -> None:
    node = f"{NODE}-{next(_numbers)}"
    store = fill(scrape_node(Wiring(), 240, node))

    words = agreement_of(reconcile_node(store, NodeRef(CLUSTER, node), Span(moment(0), moment(240))))

    assert "not enough yet" in words.sentence
    assert not words.disagrees


def test_the_api_and_the_page_tell_the_same(fill: Fill) -> None:
    clock = FixedClock(moment(1800))
    sources = Sources(account=FakeAccount(), clock=clock, series=fill(scrape_node(Wiring(psys=0.25), SECONDS)))
    app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(sources))
    client = AsgiClient(app)
    span = f"from={START_S}&to={START_S + 1800}"

    body = client.get(f"/api/v1/nodes/{NODE}/reconciliation?{span}").json()
    page = client.get(f"/nodes/{NODE}?{span}").text

    assert body["platform"] == "redfish"
    assert body["components"] == {"cpu": "powercap", "dram": "powercap"}
    assert body["agreement"]["disagrees"] is True
    assert body["residual"]["verdict"] == "agrees"
    assert body["residual"]["joules"] == pytest.approx(
        body["residual"]["platform_joules"] - body["residual"]["components_joules"]
    )
    assert {column["label"] for column in body["series"]["columns"]} == {
        *("redfish", "hwmon_power", "psys", "components", "redfish − components")
    }
    psys = next(meter for meter in body["meters"] if meter["source"] == "psys")
    assert (psys["role"], psys["reference"]) == ("compared", "redfish")
    assert psys["difference_ratio"] == pytest.approx(0.25 / 1.08 - 1, abs=0.01)
    assert body["agreement"]["sentence"] in page
    assert "meters disagree" in page


def test_a_node_without_a_store_of_series_is_not_found_not_wrong() -> None:
    sources = Sources(account=FakeAccount(), clock=FixedClock())
    client = AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))

    answer = client.get(f"/api/v1/nodes/{NODE}/reconciliation")

    assert answer.status_code == 404
    assert "no store of series" in answer.json()["detail"]
