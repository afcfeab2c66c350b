"""What the agent and the server that run here know of meters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doctor_place import found, here_in

from kwhere.core.errors import SourceError, Unavailable
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_roles import CHECKS

UP: dict[str, Any] = {"up": True, "reason": ""}
AGREES = {"sentence": "redfish agrees.", "disagrees": False, "checked": True, "causes": []}
OFF = {"sentence": "psys is 72 % below redfish.", "disagrees": True, "checked": True, "causes": ["its unit", "a GPU"]}


def agent(**sources: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    methods = {"cpu": {"method": "counter", "source": "powercap"}}
    return lambda question: {"ok": True, "sources": sources, "methods": methods} if question["get"] == "meters" else {}


def server(*nodes: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    return lambda path: {"items": list(nodes)} if path.startswith("/nodes") else {}


def node(name: str, agreement: dict[str, Any] | None) -> dict[str, Any]:
    return {"cluster": "c1", "node": name, "meters_agreement": agreement}


def test_the_agent_tells_what_it_reads(tmp_path: Path) -> None:
    here = here_in(tmp_path, ask_agent=agent(powercap=UP, redfish=UP, psys={"up": False, "reason": "absent"}))

    check = found(CHECKS, here)["agent_meters"]

    assert (check.state, check.found) == (CheckState.OK, "reads powercap, redfish; cpu by powercap")


def test_what_the_agent_lost_is_named(tmp_path: Path) -> None:
    here = here_in(tmp_path, ask_agent=agent(powercap=UP, redfish={"up": False, "reason": "timeout"}))

    check = found(CHECKS, here)["agent_meters"]

    assert check.state is CheckState.WARNING
    assert "not redfish (timeout)" in check.found


@pytest.mark.parametrize("error", [Unavailable("absent", "none"), SourceError("nonsense")])
def test_without_an_agent_or_a_server_there_is_nothing_to_say(tmp_path: Path, error: Exception) -> None:
    def nobody(_: object) -> dict[str, Any]:
        raise error

    (tmp_path / "url").write_text("http://127.0.0.1:1")

    assert found(CHECKS, here_in(tmp_path, ask_agent=nobody, ask_server=nobody)) == {}


def test_an_older_agent_is_told_so(tmp_path: Path) -> None:
    assert (
        found(CHECKS, here_in(tmp_path, ask_agent=lambda _: {"ok": True}))["agent_meters"].state is CheckState.MISSING
    )


def test_a_node_whose_meters_disagree_is_named_with_causes(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    here = here_in(tmp_path, ask_server=server(node("n1", AGREES), node("n2", OFF), node("n3", None)))

    check = found(CHECKS, here)["nodes_meters"]

    assert check.state is CheckState.WARNING
    assert check.found == "c1/n2: its meters disagree"
    assert check.why == "psys is 72 % below redfish. It may be: its unit; or a GPU."


@pytest.mark.parametrize(
    ("nodes", "state", "says"),
    [
        ([node("n1", AGREES)], CheckState.OK, "no node's meters disagree (1 of 1 have a second source)"),
        ([node("n1", None)], CheckState.MISSING, "not compared yet"),
        ([], CheckState.MISSING, "not compared yet"),
    ],
)
def test_a_server_whose_nodes_agree(tmp_path: Path, nodes: list[dict[str, Any]], state: CheckState, says: str) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1")

    check = found(CHECKS, here_in(tmp_path, ask_server=server(*nodes)))["nodes_meters"]

    assert (check.state, check.found) == (state, says)


@pytest.mark.parametrize(
    ("store", "state", "says"),
    [
        (
            {"kept_since": "2026-11-15T10:00:00Z", "by": "time", "limits": "15d"},
            CheckState.OK,
            "c1: kept since 2026-11-15 10:00 UTC; the store keeps 15d",
        ),
        (
            {"kept_since": "2026-11-28T10:00:00Z", "by": "size", "limits": "15d or 50GiB"},
            CheckState.OK,
            "c1: kept since 2026-11-28 10:00 UTC, the oldest sample; the store keeps 15d or 50GiB",
        ),
        (
            {"kept_since": "2026-06-01T10:00:00Z", "by": "oldest sample", "limits": None},
            CheckState.OK,
            "c1: kept since 2026-06-01 10:00 UTC, the oldest sample",
        ),
        ({"kept_since": None, "by": None}, CheckState.MISSING, "c1: how far back they go is not known"),
    ],
)
def test_how_far_back_curves_go_is_said_case_ceems_177(
    tmp_path: Path, store: dict[str, Any], state: CheckState, says: str
) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    here = here_in(
        tmp_path, ask_server=lambda path: {"series": [{"cluster": "c1", **store}]} if "health" in path else {}
    )

    check = found(CHECKS, here)["curves"]

    assert (check.state, check.found) == (state, says)
