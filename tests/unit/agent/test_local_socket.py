import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ledger.journals import StandingClock

from kwhere.agent.local_socket import MAX_CONNECTIONS, MAX_QUESTION_BYTES, LocalAnswers, LocalFacts, LocalSocket
from kwhere.agent.local_view import Viewer
from kwhere.core.terms import Component, Method, Part
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import CpuReading, TrackedUnit, UnitDetail
from kwhere.sampling.totals import SourceTotals, Totals, UnitTotals

FACTS = LocalFacts(version="0.1.0", node="c1", interval_seconds=1.0, slot_seconds=60)
ALICE, BOB, ROOT = Viewer(1000, sees_all=False), Viewer(1001, sees_all=False), Viewer(0, sees_all=True)


def unit(
    manager: str, name: str, uid: int | None, *, run: str = "", dynamic_uj: int = 7, seen_ns: int = 0
) -> UnitTotals:
    tracked = TrackedUnit(
        key=UnitKey(manager, name, run or f"{name}@1"),
        cgroup=None,
        inode=None,
        outer=None,
        parent_cgroup=None,
        info=UnitInfo(user="someone"),
        allocation=Allocation(milli_cpus=2000),
        from_creation=True,
        first_seen_ns=seen_ns,
        uid=uid,
    )
    return UnitTotals(
        tracked=tracked,
        live=True,
        energy_uj={(Component.CPU, Part.DYNAMIC): dynamic_uj, (Component.CPU, Part.IDLE): 3},
        cpu=CpuReading(5),
        detail=UnitDetail(memory_current_bytes=4096),
        power_uw=1_000_000,
    )


def totals(dynamic_uj: int = 7) -> Totals:
    return Totals(
        created_utc_ns=1,
        utc_ns=2,
        units=(
            unit("process", "alice:cfd", 1000, dynamic_uj=dynamic_uj),
            unit("run", "4711-1", 1001, run="4711-1@9", seen_ns=9),
            unit("run", "4711-1", 1001, run="4711-1@2", seen_ns=2),
            unit("slurm", "42", None),
        ),
        system_uj={(Component.CPU, Part.DYNAMIC): 11},
        unallocated_uj={(Component.CPU, Part.IDLE): 13},
        node_uj={Component.CPU: 61},
        methods={Component.CPU: (Method.MODELLED, "model")},
    )


class Board:
    """Totals that a test sets."""

    def __init__(self) -> None:
        self.now: Totals | None = totals()

    def __call__(self) -> Totals | None:
        return self.now


def ask(question: object, viewer: Viewer, board: Board | None = None) -> dict[str, Any]:
    return LocalAnswers(FACTS, board or Board(), StandingClock()).answer(json.dumps(question).encode(), viewer)


def test_hello_tells_who_answers_and_who_asks() -> None:
    assert ask({"get": "hello"}, ALICE) == {
        "ok": True,
        "version": "0.1.0",
        "node": "c1",
        "interval_seconds": 1.0,
        "slot_seconds": 60,
        "uid": 1000,
        "sees_all": False,
    }


def test_root_sees_everything() -> None:
    answer = ask({"get": "top"}, ROOT)

    assert [item["unit"] for item in answer["units"]] == ["alice:cfd", "4711-1", "4711-1", "42"]
    assert answer["system"] == {"cpu": {"dynamic": 11}}
    assert answer["unallocated"] == {"cpu": {"idle": 13}}
    assert answer["node"] == {"cpu": 61}
    assert answer["methods"] == {"cpu": {"method": "modelled", "source": "model"}}


@pytest.mark.parametrize(
    ("viewer", "units"),
    [(ALICE, ["alice:cfd"]), (BOB, ["4711-1", "4711-1"]), (Viewer(65534, sees_all=False), [])],
)
def test_others_see_their_own_units_alone(viewer: Viewer, units: list[str]) -> None:
    answer = ask({"get": "top"}, viewer)

    assert [item["unit"] for item in answer["units"]] == units
    assert (answer["system"], answer["unallocated"], answer["node"]) == (None, None, None)


def test_unit_is_told_whole() -> None:
    [told] = ask({"get": "top"}, ALICE)["units"]

    assert told == {
        "manager": "process",
        "unit": "alice:cfd",
        "run": "alice:cfd@1",
        "name": None,
        "user": "someone",
        "project": None,
        "uid": 1000,
        "live": True,
        "energy_uj": {"cpu": {"dynamic": 7, "idle": 3}},
        "power_uw": 1_000_000,
        "cpu_ns": 5,
        "cpu_user_ns": None,
        "cpu_system_ns": None,
        "milli_cpus": 2000,
        "memory_bytes": 4096,
        "memory_peak_bytes": None,
        "io_read_bytes": None,
        "io_write_bytes": None,
        "processes": None,
        "threads": None,
        "gpu_busy_ns": None,
    }


def test_everybody_learns_which_meters_are_read_and_no_energy() -> None:
    held = Board()
    held.now = replace(
        totals(), sources={"powercap": SourceTotals(False, "permission"), "model": SourceTotals(True, "")}
    )

    assert ask({"get": "meters"}, ALICE, held) == {
        "ok": True,
        "sources": {"powercap": {"up": False, "reason": "permission"}, "model": {"up": True, "reason": ""}},
        "methods": {"cpu": {"method": "modelled", "source": "model"}},
    }


def test_runs_of_a_unit_come_oldest_first() -> None:
    question = {"get": "unit", "manager": "run", "unit": "4711-1"}

    assert [item["run"] for item in ask(question, BOB)["runs"]] == ["4711-1@2", "4711-1@9"]
    assert ask(question, ALICE)["runs"] == []


def test_nothing_is_told_before_the_first_step() -> None:
    board = Board()
    board.now = None

    assert ask({"get": "top"}, ALICE, board)["ok"] is False
    assert ask({"get": "unit", "manager": "run", "unit": "x"}, ALICE, board)["runs"] == []


def test_energy_moves_once_a_second_for_all_but_root() -> None:
    board, clock = Board(), StandingClock()
    answers = LocalAnswers(FACTS, board, clock)
    seen: dict[str, list[int]] = {"alice": [], "root": []}
    for number, passed_ns in enumerate((0, 999_999_999, 1)):
        clock.now_ns += passed_ns
        board.now = totals(dynamic_uj=number)
        for name, viewer in (("alice", ALICE), ("root", ROOT)):
            answer: Any = answers.answer(b'{"get": "top"}', viewer)
            seen[name].append(answer["units"][0]["energy_uj"]["cpu"]["dynamic"])

    assert seen == {"alice": [0, 0, 2], "root": [0, 1, 2]}


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"[]\n", b"null\n", b"{}\n", b'{"get": "secrets"}\n', b'{"get": ["top"]}\n', b'{"get": "unit"}\n',
     b'{"get": "unit", "manager": 1, "unit": "x"}\n', b"\xff\xfe\n", b"[" * 60_000 + b"\n"],
)  # fmt: skip
def test_what_is_no_question_is_refused(line: bytes) -> None:
    answer = LocalAnswers(FACTS, Board(), StandingClock()).answer(line, ROOT)

    assert answer["ok"] is False
    assert str(answer["error"]).startswith("expected")


@given(st.binary(max_size=100))
def test_any_line_is_answered(line: bytes) -> None:
    assert LocalAnswers(FACTS, Board(), StandingClock()).answer(line, ALICE)["ok"] in (True, False)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LocalSocket]:
    local = LocalSocket(tmp_path / "state" / "agent.sock", FACTS, Board(), StandingClock())
    local.start()
    yield local
    local.stop()


class Caller:
    """A connection to a local socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def ask(self, line: bytes) -> Any:
        self.socket.sendall(line)
        return json.loads(self.file.readline())

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def test_questions_on_one_connection_are_answered_in_order(served: LocalSocket) -> None:
    caller = Caller(served.path)

    assert caller.ask(b'{"get": "hello"}\nnonsense\n')["node"] == "c1"
    assert json.loads(caller.file.readline())["ok"] is False
    assert len(caller.ask(b'{"get": "top"}\n')["units"]) == 4
    caller.close()


def test_long_line_is_refused_and_the_connection_ended(served: LocalSocket) -> None:
    caller = Caller(served.path)

    answer = caller.ask(b"x" * (MAX_QUESTION_BYTES + 10) + b"\n")

    assert answer["ok"] is False
    assert caller.file.read() == b""
    caller.close()


def test_callers_beyond_the_limit_are_sent_away(served: LocalSocket) -> None:
    callers = [Caller(served.path) for _ in range(MAX_CONNECTIONS)]
    for caller in callers:
        assert caller.ask(b'{"get": "hello"}\n')["ok"]

    late = Caller(served.path)
    assert json.loads(late.file.readline()) == {"ok": False, "error": "too many callers"}

    for caller in [*callers, late]:
        caller.close()


def test_socket_is_open_to_every_user_and_removed_at_the_end(served: LocalSocket) -> None:
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o666

    served.stop()

    assert not served.path.exists()


def test_stop_hangs_up(served: LocalSocket) -> None:
    caller = Caller(served.path)
    caller.ask(b'{"get": "hello"}\n')

    served.stop()

    with pytest.raises((ConnectionError, ValueError)):
        caller.ask(b'{"get": "hello"}\n')
    caller.close()


def test_what_a_dead_agent_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    local = LocalSocket(path, FACTS, Board(), StandingClock())

    local.start()

    caller = Caller(path)
    assert caller.ask(b'{"get": "hello"}\n')["ok"]
    caller.close()
    local.stop()


def test_long_state_directory_holds_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    local = LocalSocket(directory / "agent.sock", FACTS, Board(), StandingClock())

    local.start()

    monkeypatch.chdir(directory)
    caller = Caller(Path("agent.sock"))
    assert caller.ask(b'{"get": "hello"}\n')["ok"]
    caller.close()
    local.stop()


def test_socket_that_cannot_be_made_does_not_stop_the_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    local = LocalSocket(tmp_path / "file" / "agent.sock", FACTS, Board(), StandingClock())

    local.start()
    local.stop()

    assert "local socket cannot be made" in capsys.readouterr().out


STRANGER = """
import os, socket, sys
os.setgid(1001); os.setuid(1001)
caller = socket.socket(socket.AF_UNIX)
caller.connect(sys.argv[1])
caller.sendall(b'{"get": "top"}\\n')
answer = b""
while not answer.endswith(b"\\n"):
    answer += caller.recv(65536)
os.write(1, answer)
"""


@pytest.mark.service("root")
def test_kernel_says_who_asks(served: LocalSocket) -> None:
    served.path.parent.chmod(0o755)
    directory = os.open(served.path.parent, os.O_PATH)
    path = f"/proc/self/fd/{directory}/agent.sock"

    done = subprocess.run(
        [sys.executable, "-c", STRANGER, path], pass_fds=(directory,), capture_output=True, text=True, check=True
    )

    answer = json.loads(done.stdout)
    assert [item["unit"] for item in answer["units"]] == ["4711-1", "4711-1"]
    assert answer["node"] is None
    os.close(directory)
