"""The embedded store on a real disk."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings
from kwhere.series.store import RawSeries, ScrapedSample, Selector

START = 1_800_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALWAYS = Span(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


class StandingClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = float(START)

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def boottime_ns(self) -> int:
        return int(self.now_s * 1e9)

    def utc_ns(self) -> int:
        return int(self.now_s * 1e9)


def sample(time_s: float, value: float, name: str = "x", **labels: str) -> ScrapedSample:
    return ScrapedSample(name, tuple(sorted(labels.items())), time_s, value)


def span(start: float, end: float) -> Span:
    return Span(EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end))


def values(found: Sequence[RawSeries]) -> list[tuple[float, ...]]:
    return [series.values for series in found]


def files(directory: Path, letters: str = "mhqd") -> list[str]:
    return sorted(name for name in os.listdir(directory) if name[0] in letters and name.endswith(".parquet"))


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def store(tmp_path: Path, clock: StandingClock) -> Iterator[EmbeddedSeriesStore]:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    yield store
    store.close()


def fill(store: EmbeddedSeriesStore, clock: StandingClock, minutes: int, series: int = 3) -> None:
    """Scrape `series` counters every 10 s, with the upkeep of every minute."""
    for minute in range(minutes):
        for tick in range(6):
            time_s = clock.now_s = START + minute * 60 + tick * 10
            store.append([sample(time_s, time_s - START + i, unit=str(i)) for i in range(series)])
        store.flush()
        store.maintain()


def test_a_sample_can_be_read_at_once(store: EmbeddedSeriesStore) -> None:
    store.append([sample(START, 1.5, "up", cluster="c", node="n")])

    (series,) = store.select(Selector("up", {"cluster": "c"}), ALWAYS, 10)

    assert (series.labels, series.times, series.values) == ({"cluster": "c", "node": "n"}, (START,), (1.5,))


@pytest.mark.parametrize("lives", [1, 2])  # from memory, and from a file
def test_a_selector_wants_every_label_and_an_empty_one_absent(tmp_path: Path, clock: StandingClock, lives: int) -> None:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    store.append([sample(START, 1, a="1", b="1"), sample(START, 2, a="1"), sample(START, 3, a="2", mig="")])
    if lives == 2:
        store.close()
        store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)

    assert values(store.select(Selector("x", {"a": "1"}), ALWAYS, 10)) == [(1,), (2,)]
    assert values(store.select(Selector("x", {"a": "1", "b": ""}), ALWAYS, 10)) == [(2,)]
    assert values(store.select(Selector("x", {"mig": "", "a": "2"}), ALWAYS, 10)) == [(3,)]
    assert not store.select(Selector("y", {}), ALWAYS, 10)
    store.close()


def test_a_span_is_half_open(store: EmbeddedSeriesStore) -> None:
    store.append([sample(START + t, t) for t in range(4)])

    assert values(store.select(Selector("x", {}), span(START + 1, START + 3), 1)) == [(1, 2)]


def test_the_last_sample_of_a_step_stands_for_it(store: EmbeddedSeriesStore, clock: StandingClock) -> None:
    fill(store, clock, 3, series=1)

    (series,) = store.select(Selector("x", {}), span(START, START + 180), 60)

    assert list(zip(series.times, series.values, strict=True)) == [
        (START, 0),
        (START + 60, 60),
        (START + 120, 120),
        (START + 170, 170),
    ]


@pytest.mark.slow
def test_minutes_become_hours_become_days_and_every_sample_stays(tmp_path: Path, clock: StandingClock) -> None:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    for tick in range(0, 30 * 3600, 300):
        clock.now_s = START + tick
        store.append([sample(clock.now_s, tick / 7, unit="a"), sample(clock.now_s, tick, unit="b")])
        store.flush()
        store.maintain()

    a, b = store.select(Selector("x", {}), ALWAYS, 1)

    assert b.values == tuple(range(0, 30 * 3600, 300))
    assert a.values == tuple(tick / 7 for tick in range(0, 30 * 3600, 300))
    assert len(files(tmp_path, "d")) == 1
    assert len(files(tmp_path, "m")) <= 13
    store.close()


def test_what_was_written_is_there_for_the_next_life(tmp_path: Path, clock: StandingClock) -> None:
    first = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    fill(first, clock, 2)
    first.append([sample(START + 120, 7, unit="0")])
    first.close()

    second = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    before = second.select(Selector("x", {"unit": "0"}), ALWAYS, 10)
    second.maintain()
    after = second.select(Selector("x", {"unit": "0"}), ALWAYS, 10)

    assert before == after
    assert before[0].values == (*range(0, 120, 10), 7)
    assert (len(files(tmp_path, "m")), len(files(tmp_path, "h"))) == (0, 1)
    second.close()


def test_a_minute_is_written_by_itself(tmp_path: Path, store: EmbeddedSeriesStore, clock: StandingClock) -> None:
    store.append([sample(clock.now_s, 1)])
    assert files(tmp_path) == []

    clock.now_s += 60
    store.append([sample(clock.now_s, 2)])

    assert len(files(tmp_path, "m")) == 1


def test_old_files_go(tmp_path: Path, clock: StandingClock) -> None:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(retention_days=1), clock)
    fill(store, clock, 61)
    assert len(files(tmp_path, "h")) == 1

    clock.now_s += 2 * 86400
    store.append([sample(clock.now_s, 5, unit="0")])
    store.maintain()

    (left,) = files(tmp_path)
    assert left.startswith("m-")
    assert values(store.select(Selector("x", {"unit": "0"}), ALWAYS, 10)) == [(5,)]
    store.close()


def test_one_directory_has_one_writer(tmp_path: Path, store: EmbeddedSeriesStore, clock: StandingClock) -> None:
    with pytest.raises(Unavailable) as caught:
        EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)

    assert caught.value.reason == "locked"


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path, clock: StandingClock) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Unavailable) as caught:
        EmbeddedSeriesStore(tmp_path / "file", EmbeddedStoreSettings(), clock)

    assert caught.value.reason == "path"


def test_a_quote_in_the_directory_is_a_letter_like_any_other(tmp_path: Path, clock: StandingClock) -> None:
    store = EmbeddedSeriesStore(tmp_path / "it's", EmbeddedStoreSettings(), clock)
    fill(store, clock, 61, series=1)

    assert len(values(store.select(Selector("x", {}), ALWAYS, 10))[0]) == 61 * 6
    store.close()


def damage_first_half(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble_footer(path: Path) -> None:
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    content[-8 - length : -8] = bytes(255 - b for b in content[-8 - length : -8])
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [damage_first_half, truncate, empty, garble_footer])
@pytest.mark.parametrize("reading", ["select", "maintain"])
def test_a_damaged_file_is_set_aside_loudly_and_the_others_serve(
    tmp_path: Path, clock: StandingClock, damage: object, reading: str
) -> None:
    first = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    fill(first, clock, 3, series=40)
    first.close()
    assert callable(damage)
    damage(tmp_path / files(tmp_path)[1])

    with structlog.testing.capture_logs() as logs:
        second = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
        if reading == "maintain":
            second.maintain()
            second.maintain()
        found = second.select(Selector("x", {"unit": "7"}), ALWAYS, 10)

    assert [t - START for t in found[0].times] == [*range(0, 60, 10), *range(120, 180, 10)]
    assert [line["log_level"] for line in logs if "damaged" in str(line["event"])] == ["error"]
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".damaged")]) == 1
    second.close()


def test_one_flipped_bit_is_found_by_its_checksum(tmp_path: Path, clock: StandingClock) -> None:
    first = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    fill(first, clock, 62, series=1)
    first.close()
    (hour,) = files(tmp_path, "h")
    content = bytearray((tmp_path / hour).read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / hour).write_bytes(content)

    second = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    for _ in range(3):  # one file a minute
        second.maintain()

    assert (tmp_path / (hour + ".damaged")).exists()
    assert values(second.select(Selector("x", {}), ALWAYS, 10)) == [(3660, 3670, 3680, 3690, 3700, 3710)]
    second.close()


def test_a_merge_that_was_cut_off_neither_doubles_nor_loses(tmp_path: Path, clock: StandingClock) -> None:
    first = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    fill(first, clock, 3, series=1)
    minutes = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    first.close()
    second = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    second.maintain()
    second.close()
    # As if killed between the appearance of the hour and the removal of its minutes, and during another write.
    for name, content in minutes.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".unfinished-m-1-1-0-0-00000000.parquet").write_bytes(b"PAR1")

    third = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)

    assert values(third.select(Selector("x", {}), ALWAYS, 1)) == [tuple(range(0, 180, 10))]
    assert (len(files(tmp_path, "m")), len(files(tmp_path, "h"))) == (0, 1)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".unfinished")]
    third.close()


def test_where_writing_fails_samples_are_kept_and_written_later(
    tmp_path: Path, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    store.append([sample(START, 1)])
    with monkeypatch.context() as patch:
        patch.setattr("kwhere.series.embedded.publish", full)
        with pytest.raises(Unavailable, match="No space left"):
            store.flush()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".unfinished")]

    store.append([sample(START + 10, 2)])
    store.close()

    again = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    assert values(again.select(Selector("x", {}), ALWAYS, 10)) == [(1, 2)]
    again.close()


def test_memory_is_bounded_where_nothing_can_be_written(tmp_path: Path, clock: StandingClock) -> None:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(head_samples=1000, flush_seconds=1e9), clock)

    for tick in range(300):
        store.append([sample(START + tick * 10, tick, unit=str(unit)) for unit in range(10)])

    assert store._head.count <= 1010
    assert store.lost_samples == 3000 - store._head.count
    assert values(store.select(Selector("x", {"unit": "3"}), ALWAYS, 10))[0][-1] == 299
    store.close()


def test_a_clock_that_steps_back_loses_no_sample(store: EmbeddedSeriesStore) -> None:
    store.append([sample(START + 100, 1)])
    store.append([sample(START + 10, 2)])
    store.append([sample(START + 20, 3)])

    (series,) = store.select(Selector("x", {}), ALWAYS, 10)

    assert (series.times, series.values) == ((START + 10, START + 20, START + 100), (2, 3, 1))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.floats(width=64),
            st.integers(-(2**60), 2**60).map(float),
            st.integers(-(10**15), 10**15).map(lambda i: i / 1e6),
            st.integers(0, 10**12).map(lambda i: i / 1e9),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_every_double_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    directory = tmp_path_factory.mktemp("series")
    store = EmbeddedSeriesStore(directory, EmbeddedStoreSettings(threads=1), StandingClock())
    store.append([sample(START + i, number) for i, number in enumerate(numbers)])
    store.close()

    store = EmbeddedSeriesStore(directory, EmbeddedStoreSettings(threads=1), StandingClock())
    store.maintain()
    (series,) = store.select(Selector("x", {}), ALWAYS, 1)
    store.close()

    assert [repr(v) for v in series.values] == [repr(n + 0.0 if n == 0 else n) for n in numbers]


@pytest.mark.slow
def test_readers_and_the_writer_do_not_disturb_each_other(tmp_path: Path, clock: StandingClock) -> None:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
    store.append([sample(START, 0, unit="0")])
    stop = threading.Event()

    def read() -> list[int]:
        lengths = []
        while not stop.is_set():
            (series,) = store.select(Selector("x", {"unit": "0"}), ALWAYS, 1)
            assert series.values == tuple(range(0, len(series.values) * 10, 10))
            lengths.append(len(series.values))
        return lengths

    pool = ThreadPoolExecutor(2)
    readers = [pool.submit(read) for _ in range(2)]
    for tick in range(1, 800):
        clock.now_s = START + tick * 10
        store.append([sample(clock.now_s, tick * 10, unit="0")])
        if tick % 6 == 0:
            store.maintain()
    stop.set()
    seen = [reader.result() for reader in readers]
    pool.shutdown()
    store.close()

    for lengths in seen:
        assert lengths
        assert lengths == sorted(lengths)


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings
from kwhere.series.store import ScrapedSample, Selector

store = EmbeddedSeriesStore(Path(sys.argv[1]), EmbeddedStoreSettings(threads=1), SystemClock())
always = Span(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
tick = sum(len(series.values) for series in store.select(Selector("x", {}), always, 1))
while True:
    store.append([ScrapedSample("x", (), 1_800_000_000 + tick * 10, float(tick))])
    store.flush()
    tick += 1
    print(tick, flush=True)
    store.maintain()
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_all_that_was_flushed(tmp_path: Path, clock: StandingClock) -> None:
    chance = random.Random(7)
    flushed = 0
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(chance.randrange(2, 60)):
            flushed = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.communicate()[0].split()
        flushed = int(rest[-1]) if rest else flushed

        store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(), clock)
        (series,) = store.select(Selector("x", {}), ALWAYS, 1)
        store.close()

        assert len(series.values) in (flushed, flushed + 1)
        assert series.values == tuple(range(len(series.values)))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".damaged")]
