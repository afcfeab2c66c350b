"""Files that a prolog writes, one per GPU, with the job that holds it: dcgm-exporter's, jobstats', CEEMS', AMD's."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import Unavailable
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_mapping_settings import PrologNumbers
from kwhere.discovery import slurm
from kwhere.discovery.facts import read_small
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gpu_names import Place
from kwhere.discovery.gres_conf import GresBits
from kwhere.discovery.unit_source import TrackedUnit

_NUMBERED = re.compile(r"([0-9]{1,4})(?:[.-]([0-9]{1,4}))?")
"""Index and GPU instance; some prologs put a dash between the two."""
_NAMED = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{8,64}", re.IGNORECASE)
_AMD_IDS = 128
"""AMD's exporter takes a file's number modulo this: render nodes count from 128."""
_LIMIT_BYTES = 1 << 16
_MOST_FILES = 4096
_MOST_JOBS = 1024


@dataclass(frozen=True, slots=True)
class PrologFile:
    """One file: the name that says which GPU, and the jobs in it, each once, in their order."""

    name: str
    jobs: tuple[str, ...]
    vendor: Vendor | None = None
    """Set where the form of the file tells."""


@dataclass(frozen=True, slots=True)
class PrologJob:
    """A job's id as a prolog wrote it, and the place it is on."""

    place: Place
    job: str


def is_prolog_name(name: str) -> bool:
    """Return whether a file of this name is about a GPU; others in such a directory are nobody's business."""
    return _NUMBERED.fullmatch(name) is not None or _NAMED.fullmatch(name) is not None


def parse_prolog(name: str, text: str) -> PrologFile:
    """Return a file's jobs: one per line, the first word (jobstats adds the uid), or AMD's JSON.

    Blank lines, white space and a carriage return count for nothing; an empty file is a GPU without a job.
    """
    if text.lstrip().startswith("{"):
        return PrologFile(name, _amd_jobs(text), Vendor.AMD)
    words = (line.split() for line in text.splitlines()[:_MOST_JOBS])
    return PrologFile(name, tuple(dict.fromkeys(line[0] for line in words if line)))


def places_of(file: PrologFile, node: GpuNode, numbers: PrologNumbers, bits: GresBits) -> tuple[Place, ...]:
    """Return where a file's GPU is. A plain number does not mean the instances of a GPU that stands divided."""
    numbered = _NUMBERED.fullmatch(file.name)
    if numbered is None:
        return node.names.find(file.name)
    number, instance = int(numbered[1]), numbered[2]
    if numbers is PrologNumbers.SLURM and instance is None:
        return bits.places(number)
    names = node.names.of_first_vendor()
    if file.vendor is not None:
        names, number = node.names.of(file.vendor), number % _AMD_IDS
    look = names.by_minor if numbers is PrologNumbers.MINOR else names.by_index
    found = look(number, None if instance is None else int(instance))
    return tuple(place for place in found if not names.is_divided(place))


def job_units(node: GpuNode, job: str) -> list[TrackedUnit]:
    """Return the live runs of a job id; several where several slurmd share the host."""
    found = [unit for unit in node.jobs() if unit.key.unit == job]
    return found or node.labelled(slurm.MANAGER, slurm_sluid=job)


def read_files(directories: Sequence[Path]) -> list[PrologFile]:
    """Return the files of all directories that are there. Raises Unavailable where none of several may be read."""
    found: list[PrologFile] = []
    refused: list[str] = []
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                names = sorted(entry.name for entry in entries if not entry.is_dir())[:_MOST_FILES]
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append(f"{directory}: {error.strerror or error}")
            continue
        for path in (directory / name for name in names if is_prolog_name(name)):
            text = read_small(path, _LIMIT_BYTES)
            if text is not None:
                found.append(parse_prolog(path.name, text))
            elif not _is_gone(path):
                refused.append(f"{path}: expected a small file that may be read")
    if refused and not found:
        raise Unavailable("permission", refused[0])
    return found


def holds_of(
    files: Sequence[PrologFile], node: GpuNode, numbers: PrologNumbers, bits: GresBits
) -> tuple[list[Hold], list[PrologJob]]:
    """Return who holds what, and the jobs as written. A job that does not live here holds nothing any more."""
    holds: list[Hold] = []
    jobs: list[PrologJob] = []
    for file in files:
        for place in places_of(file, node, numbers, bits):
            jobs.extend(PrologJob(place, job) for job in file.jobs)
            units: list[UnitKey] = [unit.key for job in file.jobs for unit in job_units(node, job)]
            holds.extend(Hold(unit, place, ClaimSource.PROLOG) for unit in units)
    return list(dict.fromkeys(holds)), list(dict.fromkeys(jobs))


def _is_gone(path: Path) -> bool:
    """Return whether an epilog just removed a file."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _amd_jobs(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, dict) or str(found.get("SLURM_SCRIPT_CONTEXT", "")).startswith("epilog"):
        return ()
    job = found.get("SLURM_JOB_ID")
    words = str(job).split() if isinstance(job, str | int) and not isinstance(job, bool) else []
    return tuple(words[:1])
