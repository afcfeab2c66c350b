"""Questions to an agent through its socket: a real one, and ones that misbehave."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kwhere.agent.local_socket import LocalFacts, LocalSocket
from kwhere.core.clock import SystemClock
from kwhere.core.errors import NoData, NotPermitted, SourceError, Unavailable
from kwhere.local.agent_client import AgentConnection, ask_agent
from kwhere.local.top import AgentFeed, Top
from kwhere.local.top_choice import Choice
from kwhere.sampling.totals import Totals

FACTS = LocalFacts("0.1", "n1", 0.5, 60.0)


@contextmanager
def agent(path: Path, totals: Totals | None) -> Iterator[None]:
    """Serve the local socket of an agent at `path`."""
    face = LocalSocket(path, FACTS, lambda: totals, SystemClock())
    face.start()
    try:
        yield
    finally:
        face.stop()


@contextmanager
def saying(path: Path, answer: bytes) -> Iterator[None]:
    """Serve one caller who gets `answer` and is hung up on."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listening.close()


def test_several_questions_on_one_connection(tmp_path: Path) -> None:
    with agent(tmp_path / "agent.sock", Totals(0, utc_ns=5)), AgentConnection(tmp_path / "agent.sock") as connection:
        first, second = connection.ask({"get": "hello"}), connection.ask({"get": "top"})

    assert first["node"] == "n1"
    assert second["utc_ns"] == 5


def test_a_path_longer_than_a_sockets(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    with agent(directory / "agent.sock", None):
        assert ask_agent(directory / "agent.sock", {"get": "hello"})["ok"] is True


def test_a_refusal_is_not_permitted(tmp_path: Path) -> None:
    with agent(tmp_path / "agent.sock", None), pytest.raises(NotPermitted, match="expected"):
        ask_agent(tmp_path / "agent.sock", {"get": "nonsense"})


def test_no_agent_ever_ran(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        ask_agent(tmp_path / "none" / "agent.sock", {"get": "hello"})

    assert caught.value.reason == "absent"


def test_an_agent_that_is_dead(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left_behind:
        left_behind.bind(str(tmp_path / "agent.sock"))

    with pytest.raises(Unavailable) as caught:
        ask_agent(tmp_path / "agent.sock", {"get": "hello"})

    assert caught.value.reason == "refused"


def test_one_that_never_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mute:
        mute.bind(str(tmp_path / "agent.sock"))
        mute.listen()
        with pytest.raises(Unavailable) as caught:
            ask_agent(tmp_path / "agent.sock", {"get": "hello"}, timeout_seconds=0.05)

    assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"", Unavailable), (b'{"ok": tr', Unavailable), (b"nonsense\n", SourceError), (b"[1]\n", SourceError)],
)
def test_answers_that_are_none(tmp_path: Path, answer: bytes, error: type[Exception]) -> None:
    with saying(tmp_path / "agent.sock", answer), pytest.raises(error):
        ask_agent(tmp_path / "agent.sock", {"get": "hello"})


def test_the_feed_of_top_outlives_a_restart_of_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with agent(path, Totals(0, utc_ns=5)):
        feed = AgentFeed(path)
        before = feed.look()
    with agent(path, Totals(0, utc_ns=9)):
        after = feed.look()
    feed.close()

    assert (feed.node, feed.step_seconds) == ("n1", 0.5)
    assert (before.utc_ns, after.utc_ns) == (5, 9)


def test_the_feed_waits_for_the_first_step(tmp_path: Path) -> None:
    with agent(tmp_path / "agent.sock", None):
        feed = AgentFeed(tmp_path / "agent.sock")
        with pytest.raises(NoData):
            feed.look()
        feed.close()


def test_top_keeps_what_it_saw_while_the_agent_is_away(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with agent(path, Totals(0, utc_ns=5)):
        feed = AgentFeed(path)
        top = Top(feed, 1.0, lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))
        seen = top.look()
    gone = top.look()
    feed.close()

    assert (seen, gone) == (True, False)
    assert any("These figures are old" in line.plain for line in top.lines(Choice(), 80, 24))
