"""What pages and API say of the time before the store of series goes back to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_series import FakeSeries
from tests.fake_units import NOW, UNITS

from kwhere.access.guard import GuardRules
from kwhere.access.principal import Principal
from kwhere.access.roles import Role
from kwhere.api.app import build_app
from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.database.visibility import AccountName, Visibility
from kwhere.reports.sources import Sources
from kwhere.reports.unit_charts import unit_charts
from kwhere.series.retention import Kept, KeptBy
from kwhere.series.store import RawSeries, Selector
from kwhere.web.app import build_pages

HOUR = timedelta(hours=1)
UNIT = "/units/local/slurm/4242"
START = next(unit.started_at for unit in UNITS if unit.unit == "4242")
ALICE = Principal("alice", frozenset({Role.USER}), "", Visibility(users=frozenset({AccountName("alice")})))


@dataclass(frozen=True)
class Found:
    """What a round found of the one cluster there is."""

    kept: Kept

    def of(self, cluster: str) -> Kept | None:
        return self.kept if cluster == "local" else None


class Short(FakeSeries):
    """Has samples from a moment on."""

    def __init__(self, since: datetime) -> None:
        super().__init__()
        self.since_s = since.timestamp()

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        found = super().select(selector, span, step_seconds)
        return [_from(series, self.since_s) for series in found]


def _from(series: RawSeries, since_s: float) -> RawSeries:
    pairs = [(t, v) for t, v in zip(series.times, series.values, strict=True) if t >= since_s]
    return replace(series, times=tuple(t for t, _ in pairs), values=tuple(v for _, v in pairs))


def sources(since: datetime, by: KeptBy = KeptBy.TIME, limits: str = "15d", samples_since: datetime = NOW) -> Sources:
    kept = Found(Kept(since, by, limits))
    store = Short(samples_since)
    return Sources(account=FakeAccount(), clock=FixedClock(), series=store, retentions=kept, time_zone="Europe/Paris")


def page(found: Sources, path: str = UNIT) -> str:
    return AsgiClient(let_in(build_pages(found))).get(path).text


def series(found: Sources, **params: str) -> dict[str, object]:
    client = AsgiClient(build_app(found, GuardRules(hosts=frozenset({"testserver"}))))
    answer: dict[str, object] = client.get(f"/api/v1{UNIT}/series", params=params).json()
    return answer


def test_a_chart_that_is_empty_says_that_it_is_not_kept_case_ceems_177() -> None:
    text = page(sources(NOW + HOUR))

    assert f"not kept any more before {(NOW + HOUR).astimezone(ZoneInfo('Europe/Paris')):%Y-%m-%d %H:%M}" in text
    assert "the store of series keeps 15d" in text
    assert "the unit was shorter than two scrapes" not in text
    assert "Totals come from the account" in text


@pytest.mark.parametrize(
    ("by", "limits", "words"),
    [
        (KeptBy.SIZE, "15d or 50GiB", "the store of series keeps 15d or 50GiB, and has nothing older"),
        (KeptBy.OLDEST, "", "the store of series has nothing older"),
    ],
)
def test_why_it_is_not_kept_is_said_case_ceems_270(by: KeptBy, limits: str, words: str) -> None:
    assert words in page(sources(NOW + HOUR, by, limits))


def test_a_chart_of_which_only_the_end_is_kept_is_marked_case_ceems_177() -> None:
    since = START + (NOW - START) / 2
    text = page(sources(since, samples_since=since), f"{UNIT}?from={START:%Y-%m-%dT%H:%M}&to={NOW:%Y-%m-%dT%H:%M}")

    assert "nothing kept before " in text
    assert "Curves are not kept any more before" in text


def test_older_samples_that_are_there_all_the_same_are_no_cut() -> None:
    assert "nothing kept before " not in page(sources(START + HOUR / 60, samples_since=START - HOUR))


def test_what_is_kept_whole_is_not_mentioned() -> None:
    text = page(sources(START - HOUR, samples_since=START - HOUR))

    assert "kept any more" not in text
    assert "nothing kept" not in text


def test_a_nodes_page_says_it_too() -> None:
    assert "not kept any more before" in page(sources(NOW + HOUR), "/nodes/node-a?span=7d")


def test_the_api_tells_since_when_and_why_case_ceems_177() -> None:
    answer = series(sources(NOW + HOUR, samples_since=NOW + HOUR), names="cpu,power")

    assert answer["kept_since"] == (NOW + HOUR).isoformat().replace("+00:00", "Z")
    missing = answer["missing"]
    assert isinstance(missing, dict)
    assert missing["cpu"].startswith("not kept any more before")
    assert series(sources(START - HOUR, samples_since=START), names="cpu")["kept_since"] is None


def test_health_tells_it_of_each_cluster_case_ceems_270() -> None:
    client = AsgiClient(build_app(sources(NOW, KeptBy.SIZE, "50GiB"), GuardRules(hosts=frozenset({"testserver"}))))

    assert client.get("/api/v1/health").json()["series"] == [
        {
            "cluster": "local",
            "kept_since": NOW.isoformat().replace("+00:00", "Z"),
            "by": "size",
            "limits": "50GiB",
        }
    ]


def test_a_user_is_not_told_the_stores_address_case_ceems_303() -> None:
    class Silent(FakeSeries):
        def select(self, *arguments: object) -> list[RawSeries]:
            raise Unavailable("refused", "http://prometheus.internal:9090/api/v1/query: status 401")

    everything = Sources(account=FakeAccount(), clock=FixedClock(), series=Silent())
    record = next(unit for unit in UNITS if unit.unit == "4242")
    span = Span(record.started_at, NOW)

    _, told = unit_charts(everything.seen_by(ALICE), record, ["cpu"], span, 60.0)

    assert told == {"cpu": "the store of series did not answer"}
