"""OAR jobs: OAR 2 `/oar/USER_ID`, OAR 3 `oar.slice/oar-uUID.slice/oar-uUID-jID.slice`, and what came between."""

import re
from collections.abc import Sequence

from kwhere.discovery.match import Match, Rule, join, unit_id

MANAGER = "oar"

_OAR2 = re.compile(r"(?P<user>.+)_(?P<job>[0-9]{1,20})(?:\.slice|\.scope)?")
_OAR3 = re.compile(
    r"(?P<stem>.+)-u(?P<uid>[0-9]{1,10})-j(?P<job>[0-9]{1,20})(?:-[a-z][0-9A-Za-z]*)*(?:\.slice|\.scope)?"
)
_DOCKER = "oardocker"


def rule_for(prefix: str = "oar") -> Rule:
    """Return the rule for jobs below `prefix`, which is OAR's CPUSET_PATH without its slash."""

    def match(segments: Sequence[str]) -> Match | None:
        for index in range(len(segments) - 1, -1, -1):
            found = _job_at(segments, index, prefix)
            if found is not None:
                return found
        return None

    return match


def _job_at(segments: Sequence[str], index: int, prefix: str) -> Match | None:
    if f"{prefix}-u" in segments[index]:
        newer = _OAR3.fullmatch(segments[index])
        if newer is not None and newer["stem"] == prefix:
            return _oar3(segments, index, newer)
    if index == 0 or segments[index - 1] not in (prefix, f"{prefix}.slice"):
        return None
    older = _OAR2.fullmatch(segments[index])
    if older is None:
        return None
    return Match(
        manager=MANAGER,
        unit=unit_id(str(int(older["job"]))),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:index]),
        user=older["user"],
        node_name=_docker_node(segments, index - 1),
    )


def _oar3(segments: Sequence[str], index: int, found: re.Match[str]) -> Match:
    # Sub-jobs (-tN) and scopes (-pN) lie in the job's slice: its directory is the first that names the job.
    job = found["job"]
    top = next(i for i, s in enumerate(segments) if (m := _OAR3.fullmatch(s)) is not None and m["job"] == job)
    return Match(
        manager=MANAGER,
        unit=unit_id(str(int(job))),
        path=join(segments),
        top=join(segments[: top + 1]),
        anchor=join(segments[: min(1, top)]),
        uid=int(found["uid"]),
    )


def _docker_node(segments: Sequence[str], root: int) -> str | None:
    if root >= 2 and segments[root - 2] == _DOCKER:
        return segments[root - 1]
    return None
