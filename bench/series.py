"""The embedded store of series: bytes per sample, cost of a scrape, latency of a 24 h chart out of 3,000 series.

One unit has 40 series, as an agent gives them (eight of energy, two of CPU time, memory, pressure, I/O, …); half of
the units work, with noise in every reading, the others hardly move.
"""

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from kwhere.core.timespan import Span
from kwhere.series.charts import UnitRef, unit_chart
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings
from kwhere.series.store import ScrapedSample

START = 1_800_000_000
SCRAPE_SECONDS = 10
SERIES = 3_000
UNITS = SERIES // 40
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Reading = Callable[[], float]


class BenchClock:
    """Time as the bench makes it pass."""

    def __init__(self) -> None:
        self.now_s = float(START)

    def monotonic_ns(self) -> int:
        """Return the time."""
        return int(self.now_s * 1e9)

    def boottime_ns(self) -> int:
        """Return the time."""
        return int(self.now_s * 1e9)

    def utc_ns(self) -> int:
        """Return the time."""
        return int(self.now_s * 1e9)


def report(figure: str, value: float, unit: str, **facts: object) -> None:
    """Print one figure as a line of JSON."""
    print(json.dumps({"figure": figure, "value": round(value, 3), "unit": unit, **facts}), flush=True)


def counter(chance: random.Random, most: float, scale: float) -> Reading:
    """Return a reading that grows by up to `most`, in whole 1/`scale`."""
    total = chance.randrange(10**9)

    def read() -> float:
        nonlocal total
        total += int(chance.random() * most * scale)
        return total / scale

    return read


def gauge(chance: random.Random, most: float, moves: float) -> Reading:
    """Return a whole number that changes with probability `moves`."""
    value = float(chance.randrange(int(most)))

    def read() -> float:
        nonlocal value
        if chance.random() < moves:
            value = float(chance.randrange(int(most)))
        return value

    return read


def unit_readings(unit: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str], Reading]]:
    """Yield name, own labels and reading of the 40 series of a unit."""
    works = unit % 2 == 0
    for component in ("cpu", "dram", "gpu", "other"):
        for part in ("dynamic", "idle"):
            labels = {"component": component, "part": part}
            yield "kwhere_unit_energy_joules_total", labels, counter(chance, 500.0 if works else 0.1, 1e6)
    for mode in ("user", "system"):
        yield "kwhere_unit_cpu_seconds_total", {"mode": mode}, counter(chance, 80.0 if works else 0.01, 1e9)
    for resource_name in ("cpu", "memory", "io"):
        for kind in ("some", "full"):
            labels = {"resource": resource_name, "kind": kind}
            yield "kwhere_unit_pressure_seconds_total", labels, counter(chance, 2.0 if works else 0.0, 1e6)
    for kind in ("read_bytes", "write_bytes", "read_operations", "write_operations"):
        yield f"kwhere_unit_io_{kind}_total", {}, counter(chance, 1e6 if works else 0.0, 1)
    for kind in ("used", "anon", "file", "shmem", "swap", "peak", "limit"):
        yield f"kwhere_unit_memory_{kind}_bytes", {}, gauge(chance, 1e10, 0.7 if works else 0.05)
    yield "kwhere_unit_cpu_frequency_hertz", {}, gauge(chance, 3e9, 1.0)
    for i in range(12):
        yield f"kwhere_unit_count_{i}", {}, gauge(chance, 1000, 0.1 if works else 0.0)


def all_series(chance: random.Random) -> list[tuple[str, tuple[tuple[str, str], ...], Reading]]:
    """Return every series: name, labels and how it is read."""
    found = []
    for unit in range(UNITS):
        own = {
            "cluster": "local",
            "manager": "slurm",
            "node": f"n{unit % 4}",
            "run": f"{unit}@{START}",
            "unit": str(unit),
        }
        for name, labels, read in unit_readings(unit, chance):
            found.append((name, tuple(sorted({**own, **labels}.items())), read))
    return found


def fill(store: EmbeddedSeriesStore, clock: BenchClock, hours: float) -> int:
    """Scrape for `hours`; report what a scrape costs and return the number of samples."""
    series = all_series(random.Random(1))
    appends, upkeep, samples = [], 0.0, 0
    for tick in range(int(hours * 3600 / SCRAPE_SECONDS)):
        clock.now_s = START + tick * SCRAPE_SECONDS
        scraped = [ScrapedSample(name, labels, clock.now_s, read()) for name, labels, read in series]
        began = time.perf_counter()
        store.append(scraped)
        appends.append(time.perf_counter() - began)
        samples += len(scraped)
        if tick % 6 == 5:
            began = time.perf_counter()
            store.maintain()
            upkeep += time.perf_counter() - began
    report("series: append of one scrape, median", median(appends) * 1000, "ms", series=len(series))
    report("series: append of one scrape that writes the minute, worst", max(appends) * 1000, "ms")
    report("series: merging, share of one core", 100 * upkeep / (hours * 3600), "%")
    return samples


def chart_latency(store: EmbeddedSeriesStore, hours: float, step_seconds: float) -> list[float]:
    """Return the seconds that charts of different units over the last 24 h take."""
    end = EPOCH + timedelta(seconds=START + hours * 3600)
    span = Span(end - timedelta(hours=min(24, hours)), end)
    taken = []
    for unit in range(40):
        ref = UnitRef("local", "slurm", str(unit), ((f"n{unit % 4}", f"{unit}@{START}"),))
        began = time.perf_counter()
        chart = unit_chart(store, ref, "power", span, step_seconds)
        taken.append(time.perf_counter() - began)
        assert len(chart.columns) == 8
    return sorted(taken)


def main() -> None:
    """Run for the given hours (default 26: a day in one file, and what came since in parts)."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 26.0
    with tempfile.TemporaryDirectory() as directory:
        clock = BenchClock()
        store = EmbeddedSeriesStore(Path(directory), EmbeddedStoreSettings(), clock)
        samples = fill(store, clock, hours)
        for letter, name in (("d", "day"), ("q", "six hours"), ("h", "hour"), ("m", "minute")):
            sizes = [path.stat().st_size for path in Path(directory).glob(f"{letter}-*.parquet")]
            report(f"series: files of a {name}", len(sizes), "files", bytes=sum(sizes))
        held = sum(path.stat().st_size for path in Path(directory).glob("[hqd]-*.parquet"))
        merged = samples - store._head.count
        if merged:
            report("series: bytes per sample after compaction", held / merged, "bytes", samples=merged)
        for step in (120.0, 10.0):
            taken = chart_latency(store, hours, step)
            facts = {"step_seconds": step, "worst_ms": round(taken[-1] * 1000, 1)}
            report("series: 24 h chart of one unit out of 3,000 series", median(taken) * 1000, "ms", **facts)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        report("series: peak memory of the process", peak, "MiB")
        store.close()


if __name__ == "__main__":
    main()
