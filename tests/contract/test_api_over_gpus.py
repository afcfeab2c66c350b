"""GPUs in the API and on pages over a real account, on SQLite and PostgreSQL."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.account_site import SITE, J, Site
from tests.asgi_client import AsgiClient
from tests.contract.test_database_gpus import GIB, H100, MINUTE_NS, slot, use
from tests.fake_account import FixedClock
from tests.journals import T0_NS, HandJournal, figures, key, unit

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.database.reader import Reader
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages


@pytest.fixture
def client(engine: Engine) -> AsgiClient:
    """A job on two GPUs for four minutes: one half busy, one never used; and a unit without any."""
    journal = HandJournal()
    journal.append([unit(key("b"), figures(1, 1), user="bob")])
    for _ in range(4):
        slot(
            journal,
            use(busy_ns=MINUTE_NS // 2, memory_peak_bytes=60 * GIB),
            use("GPU-1", index=1, held_idle_ns=MINUTE_NS, held_idle_uj=6000 * J, idle_since_ns=T0_NS),
        )
    Site(engine).take(journal)
    clock = FixedClock(datetime.fromtimestamp(journal.end_ns / 1e9, UTC))
    sources = Sources(account=Reader(engine, clock, SITE), clock=clock, time_zone="UTC", zones=())
    app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(sources))
    return AsgiClient(app)


def get(client: AsgiClient, path: str) -> Any:
    return client.get(f"/api/v1{path}").json()


def test_a_unit_says_which_gpus_it_was_given_and_what_it_did_with_them(client: AsgiClient) -> None:
    item = get(client, "/units/c1/slurm/a")

    assert item["allocation"]["gpus"] == {H100: 2.0}
    assert (item["gpu_busy_seconds"], item["gpu_allocated_seconds"], item["gpu_utilization_ratio"]) == (120, 480, 0.25)
    assert (item["gpu_held_idle_seconds"], item["gpu_held_idle_joules"]) == (240, 24_000)
    assert item["gpu_memory_peak_bytes"] == 61 * GIB
    first, second = item["gpus"]
    assert (first["gpu"], first["uuid"], first["mig"], first["source"]) == (0, "GPU-0", None, "prolog")
    assert (first["utilization_ratio"], first["idle_since"], first["held_idle_seconds"]) == (0.5, None, 0)
    assert (second["held_idle_seconds"], second["idle_since"]) == (240, "2025-11-24T16:00:00Z")


def test_units_are_sorted_by_gpu_time(client: AsgiClient) -> None:
    items = get(client, "/units?sort=-gpu_busy_seconds")["items"]

    assert [item["unit"] for item in items] == ["a", "b"]  # what has none comes last


def test_a_unit_without_gpus_says_null(client: AsgiClient) -> None:
    item = get(client, "/units/c1/slurm/b")

    assert item["gpus"] == []
    assert item["allocation"]["gpus"] == {}
    assert {item[name] for name in ("gpu_busy_seconds", "gpu_utilization_ratio", "gpu_held_idle_joules")} == {None}


def test_usage_has_gpu_hours(client: AsgiClient) -> None:
    span = "from=2025-11-24T16:00:00Z&to=2025-11-24T17:00:00Z"
    items = get(client, f"/usage?by=user&{span}")["items"]

    alice = next(item for item in items if item["key"] == "alice")
    bob = next(item for item in items if item["key"] == "bob")
    assert (alice["gpu_allocated_seconds"], alice["gpu_utilization_ratio"]) == (480, 0.25)
    assert (alice["gpu_held_idle_seconds"], alice["gpu_held_idle_joules"]) == (240, 24_000)
    assert bob["gpu_allocated_seconds"] is None


@pytest.mark.parametrize("path", ["/units?format=csv", "/usage?by=user&from=2025-11-24T16:00:00Z&format=csv"])
def test_csv_has_gpu_columns(client: AsgiClient, path: str) -> None:
    rows = list(csv.DictReader(io.StringIO(client.get(f"/api/v1{path}").text)))

    held = [row["gpu_held_idle_seconds"] for row in rows if row["gpu_allocated_seconds"]]
    assert held == ["240.0"]
    assert [row["gpu_utilization_ratio"] for row in rows if row["gpu_allocated_seconds"]] == ["0.25"]
