"""Notes of slurmd's prolog and epilog (packaging/slurm/job-note): whose job this is, since when, and when it ended.

A note is a file `<job>.<node>.job`, or `.ended`, of lines `key=value` from `note=1` to `whole=1`.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from kwhere.discovery.facts import names_in, read_small

_NAME = re.compile(r"(?P<job>[0-9]{1,18})\.(?P<node>.{1,255})\.(?:job|ended)")
_LIMIT_BYTES = 1 << 14
_MOST_FILES = 4096
_MOST_GPUS = 1024
_GPU_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


@dataclass(frozen=True, slots=True)
class JobNote:
    """What a prolog knew of a job on one node; None: not told."""

    job: str
    """Raw job id."""
    node: str
    """As SLURM calls it."""
    started_seconds: int | None = None
    """UTC seconds since 1970."""
    ended_seconds: int | None = None
    """Set once its epilog ran."""
    sluid: str | None = None
    uid: int | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    name: str | None = None
    gpus: tuple[int, ...] = ()
    """As SLURM counts them on this node."""


def parse_note(text: str) -> JobNote | None:
    """Return what a note says; None for one that is not whole, or is none."""
    lines = text.split("\n")
    if not lines or lines[0] != "note=1" or lines[-2:] != ["whole=1", ""]:
        return None
    said = {key: value for key, separator, value in (line.partition("=") for line in lines) if separator}
    job = _digits(said.get("job", ""), 18)
    if job is None:
        return None
    return JobNote(
        job=str(job),
        node=said.get("node", ""),
        started_seconds=_digits(said.get("started", ""), 11),
        ended_seconds=_digits(said.get("ended", ""), 11),
        sluid=said.get("sluid") or None,
        uid=_digits(said.get("uid", ""), 10),
        user=said.get("user") or None,
        account=said.get("account") or None,
        partition=said.get("partition") or None,
        name=said.get("name") or None,
        gpus=parse_gpus(said.get("gpus", "")),
    )


def parse_gpus(text: str) -> tuple[int, ...]:
    """Return the numbers of `0,1` or `0-3`, each once; none where it holds anything else."""
    found: dict[int, None] = {}
    for word in text.split(",") if text.strip() else ():
        matched = _GPU_RANGE.fullmatch(word.strip())
        if matched is None:
            return ()
        first = int(matched[1])
        last = int(matched[2] or first)
        if last - first >= _MOST_GPUS:
            return ()
        found.update(dict.fromkeys(range(first, last + 1)))
    return tuple(found)


def find_note(directory: Path, job: str, node: str | None) -> JobNote | None:
    """Return the note of a job on one of this host's nodes; `node` None: where it has but one, that."""
    if not is_trusted(directory):
        return None
    if node is not None:
        found = (_read(directory / f"{job}.{node}.{ending}", job) for ending in ("job", "ended"))
        return next((note for note in found if note is not None and note.node == node), None)
    names = [name for name in names_in(directory) if name.startswith(f"{job}.") and _NAME.fullmatch(name)]
    live = [name for name in names if name.endswith(".job")] or names
    return _read(directory / live[0], job) if len(live) == 1 else None


def find_sluid(directory: Path, sluid: str) -> JobNote | None:
    """Return the note of the run of this SLUID, which no file's name tells."""
    return next((note for note in read_notes(directory) if note.sluid == sluid), None)


def read_notes(directory: Path) -> list[JobNote]:
    """Return all notes there are, in the order of their files' names; none of a directory that others may write."""
    if not is_trusted(directory):
        return []
    names = [name for name in names_in(directory) if _NAME.fullmatch(name)][:_MOST_FILES]
    notes = (_read(directory / name, name.partition(".")[0]) for name in names)
    return [note for note in notes if note is not None]


def is_trusted(directory: Path) -> bool:
    """Return whether a directory is root's or ours, and nobody else's to write in: a note names who pays."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _read(path: Path, job: str) -> JobNote | None:
    text = _text(path)
    note = None if text is None else parse_note(text)
    return note if note is not None and note.job == job else None


def _text(path: Path) -> str | None:
    """A pipe by that name would keep us waiting."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
    except (OSError, ValueError):
        return None
    return read_small(path, _LIMIT_BYTES)


def _digits(text: str, most: int) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None
