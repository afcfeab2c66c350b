"""SLURM jobs: cgroup v1 `/slurm[_NODE]/uid_U/job_N`, v2 `[NODE_]slurmstepd.scope/job_N`, SLUID names from 26.05 on."""

import re
from collections.abc import Sequence

from kwhere.discovery.match import Match, join, unit_id

MANAGER = "slurm"

_SCOPE = re.compile(r"(?:(?P<node>.+)_)?slurmstepd\.scope")
_ROOT = re.compile(r"slurm(?:_(?P<node>.+))?")
_UID = re.compile(r"uid_(?P<uid>[0-9]{1,10})")
_JOB = re.compile(r"job_(?P<job>[0-9]{1,20})")
# `s` and 13 characters of Crockford's base 32; CgroupJobIdPaths=yes brings job_N back.
_SLUID = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}")


def match(segments: Sequence[str]) -> Match | None:
    """Return the job whose directory is, or lies above, the path; its steps and tasks belong to it."""
    for index in range(len(segments) - 1, 0, -1):
        found = _job_at(segments, index)
        if found is not None:
            return found
    return None


def is_root(name: str) -> bool:
    """Return whether a directory of this name at the top of a v1 hierarchy is slurmd's."""
    return _ROOT.fullmatch(name) is not None


def is_sluid(unit: str) -> bool:
    """Return whether a unit id is a SLUID, which says nothing about the raw job id."""
    return _SLUID.fullmatch(unit) is not None


def _job_at(segments: Sequence[str], index: int) -> Match | None:
    job = _JOB.fullmatch(segments[index])
    if job is None and _SLUID.fullmatch(segments[index]) is None:
        return None
    uid = _UID.fullmatch(segments[index - 1])
    root_index = index - 2 if uid else index - 1
    if root_index < 0:
        return None
    root = _ROOT.fullmatch(segments[root_index]) or (None if uid else _SCOPE.fullmatch(segments[root_index]))
    if root is None:
        return None
    return Match(
        manager=MANAGER,
        unit=str(int(job["job"])) if job else unit_id(segments[index]),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[: root_index + 1]),
        node_name=root["node"],
        uid=int(uid["uid"]) if uid else None,
        provisional=job is None,
    )
