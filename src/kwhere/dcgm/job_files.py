"""The directory of job files that a prolog writes: one file per GPU, one job id per line."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kwhere.dcgm.entities import Entity

MAX_BYTES = 1 << 16
MAX_FILES = 4096
_NAME = re.compile(r"\d+(?:[.-]\d+)?|(?:GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobFiles:
    """What the files say now: job ids by file name: `<gpu>`, `<gpu>.<GPU instance>` (or with a dash), or a uuid."""

    jobs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, entity: Entity) -> Sequence[str]:
        """Return the jobs of a GPU; of a GPU instance only those that its own file names."""
        index = entity.state.device.index
        if entity.instance is None:
            names: tuple[str, ...] = (str(index), entity.state.device.uuid)
        else:
            number = entity.instance.gpu_instance
            names = (f"{index}.{number}", f"{index}-{number}", entity.instance.uuid)
        return tuple(dict.fromkeys(job for name in names for job in self.jobs.get(name, ())))


def read_job_files(directory: Path, tell: Callable[[str, str], None]) -> JobFiles:
    """Return what every readable file says. `tell` gets the file and the reason of each that is not; others go on."""
    found: dict[str, Sequence[str]] = {}
    for name in _names(directory, tell):
        path = directory / name
        try:
            jobs = _read(path)
        except OSError as error:
            tell(str(path), f"cannot be read ({error.strerror or error})")
            continue
        if jobs:
            found[name] = jobs
    return JobFiles(found)


def _names(directory: Path, tell: Callable[[str, str], None]) -> Iterator[str]:
    """Yield names of job files; a directory that is not there yet has none."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
    except FileNotFoundError:
        return
    except OSError as error:
        tell(str(directory), f"cannot be read ({error.strerror or error})")
        return
    yield from names[:MAX_FILES]


def _read(path: Path) -> tuple[str, ...]:
    """Return the job ids of a file, each once; none of what is no regular file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold up the scrape
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        content = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise OSError(f"expected at most {MAX_BYTES} bytes")
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))
