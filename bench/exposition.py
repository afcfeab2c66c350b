"""CPU milliseconds to write a page of 10,000 and of 100,000 samples (50 families, four labels); one JSON line each."""

import gzip
import json
import time
from statistics import median

from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.exposition.text import Format, Renderer

FAMILIES = 50
LABELS = ("manager", "unit", "run", "mode")


def samples(count: int) -> list[Sample]:
    """Build a page's samples; owners repeat over families, values differ."""
    specs = [MetricSpec(f"kwhere_bench_{n}_total", Kind.COUNTER, "A counter.", LABELS) for n in range(FAMILIES)]
    owners = [("slurm", str(n), f"{n}@1795975931", "user") for n in range(count // FAMILIES)]
    return [Sample(spec, owner, n * 1.000001 if n % 2 else n) for spec in specs for n, owner in enumerate(owners)]


def milliseconds(count: int, text_format: Format, runs: int = 9) -> float:
    """Return the median of CPU milliseconds, cache warm."""
    page = samples(count)
    renderer = Renderer()
    renderer.render(page, text_format)
    times = []
    for _ in range(runs):
        started = time.process_time()
        renderer.render(page, text_format)
        times.append((time.process_time() - started) * 1000)
    return median(times)


def main() -> None:
    for count, goal in ((10_000, 12), (100_000, 180)):
        for text_format in (Format.TEXT, Format.OPENMETRICS_1):
            figure = {
                "figure": "exposition",
                "samples": count,
                "format": text_format.name.lower(),
                "cpu_milliseconds": round(milliseconds(count, text_format), 2),
                "goal_milliseconds": goal,
            }
            print(json.dumps(figure))
        body = Renderer().render(samples(count), Format.TEXT)
        started = time.process_time()
        size = len(gzip.compress(body, 1))
        spent = (time.process_time() - started) * 1000
        print(
            json.dumps(
                {"figure": "exposition_gzip", "samples": count, "cpu_milliseconds": round(spent, 2), "bytes": size}
            )
        )


if __name__ == "__main__":
    main()
