"""Children that live on: lines both ways, and an end to them whatever they do."""

import sys
from collections.abc import Callable, Iterator

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.child_process import ChildProcess

Start = Callable[..., ChildProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[ChildProcess] = []

    def begin(code: str, **environment: str) -> ChildProcess:
        made.append(ChildProcess([sys.executable, "-c", code], environment))
        return made[-1]

    yield begin
    for child in made:
        child.end(0.2)


def send_often(child: ChildProcess, line: bytes) -> None:
    for _ in range(10_000):
        child.send(line)


def test_lines_go_both_ways(start: Start) -> None:
    child = start("import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)")

    child.send(b"one")
    child.send(b"two")

    assert [child.receive(20), child.receive(20)] == [b"ONE", b"TWO"]


def test_no_line_in_time_is_none(start: Start) -> None:
    assert start("import time; time.sleep(60)").receive(0.05) is None


def test_half_a_line_is_not_a_line(start: Start) -> None:
    child = start("import sys,time; sys.stdout.write('half'); sys.stdout.flush(); time.sleep(60)")

    assert child.receive(0.3) is None


def test_a_child_that_ends_is_told_with_its_last_words(start: Start) -> None:
    child = start("import sys; sys.stderr.write('first\\nno driver\\n'); sys.exit(3)")

    with pytest.raises(Unavailable, match="no driver") as caught:
        child.receive(20)
    assert caught.value.reason == "ended"


def test_a_child_that_is_gone_takes_no_orders(start: Start) -> None:
    child = start("pass")
    with pytest.raises(Unavailable):
        child.receive(20)

    with pytest.raises(Unavailable):
        send_often(child, b"poll")


def test_a_child_that_does_not_read_never_blocks_us(start: Start) -> None:
    child = start("import time; time.sleep(60)")

    with pytest.raises(Unavailable) as caught:
        send_often(child, b"x" * 1000)
    assert caught.value.reason == "timeout"


def test_a_line_without_an_end_is_an_error(start: Start) -> None:
    child = start("import sys\nwhile True: sys.stdout.write('x' * 65536)")

    with pytest.raises(SourceError, match="longer than"):
        child.receive(20)


def test_a_program_that_is_not_there_is_absent() -> None:
    with pytest.raises(Unavailable) as caught:
        ChildProcess(["/nonexistent/program"])
    assert caught.value.reason == "absent"


def test_a_child_that_will_not_end_is_killed(start: Start) -> None:
    child = start(
        "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
    )
    assert child.receive(20) == b"up"

    child.end(0.1)

    assert child._child.returncode == -9


def test_variables_are_passed_on(start: Start) -> None:
    child = start("import os; print(os.environ['WORD'], flush=True)", WORD="told")

    assert child.receive(20) == b"told"
