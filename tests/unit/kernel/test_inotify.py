"""Events of directories, real ones and damaged ones."""

import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import Unavailable
from kwhere.kernel.inotify import Change, DirectoryEvent, DirectoryWatch, parse_events


def _event(watch: int, mask: int, name: bytes) -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16)
    return struct.pack("iIII", watch, mask, 0, len(padded)) + padded


def test_directories_are_told_and_files_are_not(tmp_path: Path) -> None:
    watch = DirectoryWatch()
    number = watch.add(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("")
    (tmp_path / "d").rename(tmp_path / "e")
    (tmp_path / "e").rmdir()

    events = watch.read()

    assert events == [
        DirectoryEvent(number, Change.CREATED, "d"),
        DirectoryEvent(number, Change.DELETED, "d"),
        DirectoryEvent(number, Change.RENAMED, "e"),
        DirectoryEvent(number, Change.DELETED, "e"),
    ]
    assert watch.read() == []
    watch.close()
    watch.close()


def test_the_end_of_a_watched_directory_is_told(tmp_path: Path) -> None:
    watch = DirectoryWatch()
    (tmp_path / "d").mkdir()
    number = watch.add(tmp_path / "d")
    (tmp_path / "d").rmdir()

    assert watch.read() == [DirectoryEvent(number, Change.UNWATCHED, "")]
    watch.remove(number)
    watch.close()


def test_what_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    watch = DirectoryWatch()
    (tmp_path / "file").write_text("")

    for name in ("absent", "file"):
        with pytest.raises(Unavailable) as caught:
            watch.add(tmp_path / name)
        assert caught.value.reason == "absent"
    watch.close()


def test_lost_events_are_told() -> None:
    assert parse_events(_event(-1, 0x4000, b"")) == [DirectoryEvent(-1, Change.OVERFLOW, "")]


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(data: bytes) -> None:
    parse_events(data)


def test_names_of_any_bytes_are_kept() -> None:
    assert parse_events(_event(3, 0x40000100, b"\xff\\x2d")) == [DirectoryEvent(3, Change.CREATED, "\udcff\\x2d")]


def test_events_are_stamped_as_they_come(tmp_path: Path) -> None:
    times = iter(range(100, 10_000, 100))
    stamped = threading.Event()

    def clock() -> int:
        stamped.set()
        return next(times)

    watch = DirectoryWatch(clock)
    watch.add(tmp_path)
    (tmp_path / "a").mkdir()
    assert stamped.wait(10)
    first = watch.read()
    (tmp_path / "a").rmdir()
    second = watch.read() or watch.read()
    watch.close()
    watch.close()

    assert [(event.name, event.change, event.time_ns) for event in first] == [("a", Change.CREATED, 100)]
    assert [(event.name, event.change) for event in second] == [("a", Change.DELETED)]
    assert (second[0].time_ns or 0) > 100


def test_a_watch_closes_with_its_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    watch = DirectoryWatch(lambda: 1)
    watch.add(tmp_path)

    watch.close()

    assert threading.active_count() == before
