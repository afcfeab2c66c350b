"""Cray's counters for tests, written as files."""

from collections.abc import Mapping
from pathlib import Path


def write_counters(
    root: Path, joules: Mapping[str, int], *, freshness: int = 1, startup: int = 1_690_000_000, device_us: int = 10**15
) -> Path:
    """Write energy files below `root`/cray/pm_counters, all of one moment."""
    path = root / "cray" / "pm_counters"
    path.mkdir(parents=True, exist_ok=True)
    (path / "freshness").write_text(f"{freshness}\n")
    (path / "startup").write_text(f"{startup}\n")
    for name, value in joules.items():
        (path / name).write_text(f"{value} J {device_us} us\n")
    return path
