"""GPU panels as HTML: rows of figures, dashes with their reasons, and nothing where there is no GPU."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import NOW, UNITS
from tests.unit.reports.test_gpus import GPU, HOUR_NS, MIG, NodeSeries, hold

from kwhere.database.gpu_records import GpuTotals, by_kind
from kwhere.database.records import UnitRecord
from kwhere.reports.node_gpus import GpuCounts
from kwhere.reports.sources import Sources
from kwhere.series.store import SeriesStore
from kwhere.web.app import build_pages
from kwhere.web.pages.node_gpus import summary_of

IDLE = replace(GPU, device="GPU-1", index=1, busy_ns=0, held_idle_ns=3 * HOUR_NS, held_idle_uj=3_240_000 * 10**6)
UNKNOWN = replace(GPU, device="GPU-2", index=2, busy_ns=None, unknown_ns=GPU.allocated_ns, memory_peak_bytes=None)


def job(*gpus: object) -> UnitRecord:
    held = tuple(replace(gpu, node="node-a") for gpu in gpus)  # type: ignore[type-var]
    totals = GpuTotals(8 * HOUR_NS, 0, HOUR_NS, 3 * HOUR_NS, 3_240_000 * 10**6)
    return replace(UNITS[0], gpus=held, gpus_allocated=by_kind(held), gpu=totals)  # type: ignore[arg-type]


def client(account: FakeAccount, series: SeriesStore | None = None) -> AsgiClient:
    return AsgiClient(let_in(build_pages(Sources(account=account, clock=FixedClock(), series=series))))


def unit_text(record: UnitRecord) -> str:
    page = client(FakeAccount(records=(record,)))
    path = f"/units/{record.cluster}/{record.manager}/{record.unit}"
    return _plain(page.get(path).text)


def _plain(html: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)))


def test_the_unit_page_has_a_row_per_gpu_and_says_what_idled_case_gpu_61() -> None:
    since = NOW - timedelta(hours=3)
    text = unit_text(job(GPU, replace(IDLE, idle_since=since), replace(MIG, device="GPU-3", index=3)))

    assert "GPU 1 was held idle for 3 h , 900 Wh ; nothing of it runs there since" in text
    assert "25 % 25 %" not in text
    assert "GPU 3 1g.10gb" in text
    assert "a file of the scheduler's prolog" in text
    assert "12 %" in text  # an hour of eight
    assert "Tensor activity: no samples of it: NVIDIA's Hopper and newer tell it by themselves" in text


def test_what_nobody_knows_is_a_dash_with_its_reason() -> None:
    text = unit_text(job(UNKNOWN))

    assert "nobody knows: no utilisation is told for a part of this GPU" in text
    assert "no memory use is told" in text


def test_a_gpu_that_was_given_back_is_marked_while_the_unit_runs() -> None:
    back = replace(IDLE, is_held=False, held_idle_ns=0)

    assert "given back" in unit_text(job(GPU, back))
    assert "given back" not in unit_text(replace(job(GPU, back), ended_at=NOW))


@pytest.mark.parametrize("path", ["/units/local/slurm/4242", "/nodes/node-a", "/usage"])
def test_without_a_gpu_there_is_no_panel_and_no_column(path: str) -> None:
    answer = client(FakeAccount()).get(path)

    assert answer.status_code == 200
    assert 'aria-label="GPUs"' not in answer.text
    assert "GPU time" not in answer.text


def test_the_list_of_units_has_gpu_columns_on_request() -> None:
    page = client(FakeAccount(records=(job(GPU, IDLE), UNITS[1])))

    text = _plain(page.get("/units?columns=unit,gpus,gpu_busy,gpu_idle").text)

    assert "2 12 3 h" in text
    assert "it holds no GPU" in text


def test_the_node_page_shows_who_holds_what() -> None:
    series = NodeSeries()
    series.gpu(0)
    series.gpu(7, model="<b>A100</b>", up=0, reason="lost")
    held = replace(GPU, idle_since=NOW - timedelta(minutes=5))
    for name, found in list(series.held):
        found.labels["node"] = "node-a"  # type: ignore[index]
        assert name
    page = client(FakeAccount(holds=(hold("4242", replace(held, node="node-a")),)), series)

    html = page.get("/nodes/node-a").text
    text = _plain(html)

    assert "2 GPUs · 1 held (1 of them idle) · 1 down" in text
    assert "idle since 5 min ago" in text
    assert "it fell off the bus." in text
    assert "<b>A100" not in html
    assert 'href="/units/local/slurm/4242?run=4242%401"' in html


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (GpuCounts(present=1, free=1), "1 GPU · 1 free"),
        (GpuCounts(present=8, down=1, held=5, idle=2, free=2), "8 GPUs · 5 held (2 of them idle) · 2 free · 1 down"),
        (
            GpuCounts(present=1, instances={"held": 2, "idle": 0, "free": 1}),
            "1 GPU · instances: 2 held, 1 free",
        ),
    ],
)
def test_a_nodes_gpus_in_one_line(counts: GpuCounts, words: str) -> None:
    assert summary_of(counts) == words
