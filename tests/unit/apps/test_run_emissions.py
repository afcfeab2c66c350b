"""Grams of a `kwhere run`: the factor of the pages where there is a server, else that of the settings."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kwhere.apps.run import GridFactor, emissions_grams, factor_now
from kwhere.apps.settings import Settings
from kwhere.core.terms import Component, Part

JOULES = {(Component.CPU, Part.DYNAMIC): 3.6e6, (Component.DRAM, Part.IDLE): 1.8e6}
BESIDE = {"zone": "SE", "grams_per_kwh": 9.0, "reporting": False}
CHOSEN = {"zone": "SE", "grams_per_kwh": 25.0, "reporting": True}


class Handler(BaseHTTPRequestHandler):
    """A server whose zone was chosen on the page."""

    def do_GET(self) -> None:
        """Answer as the API."""
        body = json.dumps({"items": [BESIDE, CHOSEN]}).encode()
        self.send_response(200 if self.headers["Authorization"] == "Bearer secret" else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Return the state directory of a server that answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (tmp_path / "url").write_text(f"http://127.0.0.1:{server.server_port}\n")
    (tmp_path / "token").write_text("secret\n")
    yield tmp_path
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_zone_chosen_on_the_page_counts(state: Path) -> None:
    assert factor_now(Settings(), state) == GridFactor("SE", 25.0)


def test_a_zone_of_the_settings_is_not_overruled(state: Path) -> None:
    settings = Settings.model_validate({"site": {"zone": "FR"}})

    found = factor_now(settings, state)

    assert found is not None
    assert found.zone == "FR"
    assert 10 < found.grams_per_kwh < 100


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9"])
def test_without_a_server_and_a_zone_there_is_no_factor(tmp_path: Path, url: str | None) -> None:
    if url:
        (tmp_path / "url").write_text(f"{url}\n")

    assert factor_now(Settings(), tmp_path) is None


def test_a_stranger_is_told_nothing(state: Path) -> None:
    (state / "token").write_text("wrong\n")

    assert factor_now(Settings(), state) is None


def test_grams_are_energy_times_pue_times_factor() -> None:
    settings = Settings.model_validate({"site": {"pue_ratio": 1.5}})

    grams = emissions_grams(settings, GridFactor("SE", 20.0), JOULES)

    assert grams == pytest.approx(1.5 * 1.5 * 20.0)  # 1.5 kWh, PUE 1.5, 20 g/kWh
    assert emissions_grams(settings, None, JOULES) is None
    assert emissions_grams(settings, GridFactor("SE", 20.0), {}) is None
