"""Builds the fake libnvidia-ml.so.1 with the system's C compiler, once per content of its source."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"
COMPILE = ("-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation")


def build_fake_nvml() -> Path:
    """Return the path of the library; built on first use and kept in the machine's temporary directory."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(COMPILE).encode()).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"fake-nvml-{os.getuid()}-{digest}"
    library = home / NAME
    if not library.exists():
        home.mkdir(mode=0o700, exist_ok=True)
        fresh = home / f"{NAME}.{os.getpid()}"
        command = ["cc", *COMPILE, f"-Wl,-soname,{NAME}", str(SOURCE), "-o", str(fresh), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        fresh.rename(library)
    return library


def install_fake_nvml(directory: Path) -> Path:
    """Return a library of its own in `directory`: it plays the scenario written beside it."""
    library = directory / NAME
    shutil.copy(build_fake_nvml(), library)
    return library
