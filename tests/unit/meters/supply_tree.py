"""Power supplies for tests, written as files."""

from collections.abc import Mapping
from pathlib import Path


def write_supply(root: Path, name: str, files: Mapping[str, int | str]) -> Path:
    """Write one supply below `root`/class/power_supply."""
    path = root / "class" / "power_supply" / name
    path.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (path / file).write_text(f"{content}\n")
    return path
