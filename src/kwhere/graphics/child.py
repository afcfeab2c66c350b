"""The child process that reads AMD's or Intel's GPUs: `python -m kwhere.graphics.child READER PROCFS SYSFS [PATH]`.

It serves as the one of NVIDIA's library does (devices/gpu_child.py). A file of a driver may hang as a library does.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from kwhere.devices.gpu_child import run
from kwhere.devices.gpu_library import Library, LibraryError
from kwhere.graphics.amd import AmdLibrary
from kwhere.graphics.amdsmi import AmdsmiLibrary
from kwhere.graphics.intel import IntelLibrary
from kwhere.graphics.readers import AMDGPU, AMDSMI, INTEL_GPU
from kwhere.kernel.hostfs import HostFS

READERS: Mapping[str, Callable[[HostFS], Library]] = {
    AMDSMI: AmdsmiLibrary,
    AMDGPU: AmdLibrary,
    INTEL_GPU: IntelLibrary,
}


def open_reader(reader: str, fs: HostFS, path: str) -> Library:
    """Return a reader; `path` is where AMD's package lies. Raises LibraryError for one that nobody knows."""
    if path and path not in sys.path:
        sys.path.append(path)
    try:
        make = READERS[reader]
    except KeyError:
        raise LibraryError("error", f"{reader}: expected one of {', '.join(READERS)}") from None
    return make(fs)


def main(argv: list[str]) -> None:
    """Serve one reader."""
    reader, procfs, sysfs, path = argv[0], Path(argv[1]), Path(argv[2]), argv[3] if len(argv) > 3 else ""
    run(lambda: open_reader(reader, HostFS(procfs, sysfs), path))


if __name__ == "__main__":
    main(sys.argv[1:])
