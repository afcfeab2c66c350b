"""Assets as npm built them, and pages without them."""

import json
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.asgi_client import AsgiClient

from kwhere.web.static_files import Assets


@pytest.fixture
def built(tmp_path: Path) -> Assets:
    (tmp_path / "manifest.json").write_text(json.dumps({"style.css": "style-0a1b.css"}))
    (tmp_path / "style-0a1b.css").write_text("body { margin: 0 }")
    (tmp_path / "secret.txt").write_text("not an asset")
    return Assets(tmp_path)


def _client(assets: Assets) -> AsgiClient:
    return AsgiClient(Starlette(routes=[Route("/static/{name}", assets.serve)]))


def test_a_hashed_name_is_kept_for_ever_and_a_plain_one_checked_each_time(built: Assets) -> None:
    client = _client(built)

    hashed, plain = client.get(built.url("style.css")), client.get("/static/style.css")

    assert built.url("style.css") == "/static/style-0a1b.css"
    assert hashed.text == plain.text == "body { margin: 0 }"
    assert hashed.headers["content-type"].startswith("text/css")
    assert "immutable" in hashed.headers["cache-control"]
    assert plain.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["secret.txt", "manifest.json", "nothing.js"])
def test_only_what_the_manifest_names_is_served(built: Assets, name: str) -> None:
    assert _client(built).get(f"/static/{name}").status_code == 404


def test_without_a_build_there_are_no_assets(tmp_path: Path) -> None:
    assets = Assets(tmp_path)

    assert not assets.are_built
    assert assets.url("app.js") == "/static/app.js"
