"""Builds the fake libdcgm and puts a copy where a test wants it."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("dcgm.c")


@cache
def _built() -> Path:
    library = Path(tempfile.mkdtemp(prefix="fake-dcgm-")) / "libdcgm.so.4"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE, "-ldl"], check=True
    )
    return library


def install_fake_dcgm(directory: Path, *lines: str) -> Path:
    """Return the path of a library of its own that plays these lines."""
    library = directory / "libdcgm.so.4"
    shutil.copy(_built(), library)
    play(library, *lines)
    return library


def play(library: Path, *lines: str) -> None:
    """Let a library play these lines from now on."""
    library.with_name(f"{library.name}.scenario").write_text("".join(f"{line}\n" for line in lines))
