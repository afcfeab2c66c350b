"""systemd: services, scopes, a desktop's applications, login sessions; and the daemons that are no unit."""

import re
from collections.abc import Sequence

from kwhere.discovery.libvirt import unescape
from kwhere.discovery.match import SYSTEM, Match, join, unit_id

MANAGER = "systemd"
SESSION = "session"
SERVICES = "services"
"""Unit that services and sessions fold into where a resource manager rules the node."""

_USER_SLICE = re.compile(r"user-(?P<uid>[0-9]{1,10})\.slice")
_USER_MANAGER = re.compile(r"user@(?P<uid>[0-9]{1,10})\.service")
_SESSION_SCOPE = re.compile(r"session-(?P<id>.+)\.scope")
_DAEMON = re.compile(
    r"(?:containerd|dockerd?|cri-dockerd?|cri-?o|buildkitd?|podman|conmon|kubelet|k3s(?:-agent)?|rke2-(?:server|agent)"
    r"|k0s(?:controller|worker)|lxd|incus|snap\.(?:docker|microk8s|k8s|lxd)\..+|(?:.+_)?slurm(?:d(?:-.+)?|stepd)|slurm(?:ctld|dbd|restd)|oar-node|libvirtd|virt[a-z]+d"
    r"|kwhere(?:-[a-z]+)?)(?:@.+)?\.(?:service|scope)"
)


def match_daemon(segments: Sequence[str]) -> Match | None:
    """Return the runtime or daemon on the list, or the init process, whose directory the path belongs to."""
    if segments and segments[0] == "init.scope":
        return _system(segments, 0, "init")
    for index, name in enumerate(segments):
        if not name.endswith(".slice"):
            return _system(segments, index, name) if _DAEMON.fullmatch(name) is not None else None
    return None


def match_unit(segments: Sequence[str]) -> Match | None:
    """Return the service or scope that the path belongs to; of a user's manager its applications are units too."""
    index = _first_unit(segments, 0)
    if index is None or _session_id(segments, index) is not None:
        return None
    manager = _USER_MANAGER.fullmatch(segments[index])
    uid = _uid_above(segments, index)
    if manager is not None:
        index = _application(segments, index) or index
        uid = int(manager["uid"])
    name = segments[index]
    return Match(
        manager=MANAGER,
        unit=unit_id(name),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:1]),
        name=unescape(name),
        uid=uid,
    )


def match_session(segments: Sequence[str]) -> Match | None:
    """Return the login session that the path belongs to."""
    index = _first_unit(segments, 0)
    if index is None:
        return None
    session = _session_id(segments, index)
    if session is None:
        return None
    return Match(
        manager=SESSION,
        unit=unit_id(session),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:1]),
        name=segments[index],
        uid=_uid_above(segments, index),
    )


def _first_unit(segments: Sequence[str], start: int) -> int | None:
    """Return where, below slices alone, the first service or scope stands."""
    for index in range(start, len(segments)):
        name = segments[index]
        if name.endswith((".service", ".scope")):
            return index if index > 0 else None
        if not name.endswith(".slice"):
            return None
    return None


def _application(segments: Sequence[str], manager: int) -> int | None:
    """Return where an application of a user's manager stands: scopes of app.slice, and services named app-…."""
    if manager + 1 >= len(segments) or segments[manager + 1] != "app.slice":
        return None
    index = _first_unit(segments, manager + 1)
    if index is None or not (segments[index].endswith(".scope") or segments[index].startswith("app-")):
        return None
    return index


def _session_id(segments: Sequence[str], index: int) -> str | None:
    found = _SESSION_SCOPE.fullmatch(segments[index])
    return found["id"] if found is not None and segments[0] == "user.slice" else None


def _uid_above(segments: Sequence[str], index: int) -> int | None:
    for name in segments[:index]:
        found = _USER_SLICE.fullmatch(name)
        if found is not None:
            return int(found["uid"])
    return None


def _system(segments: Sequence[str], index: int, name: str) -> Match:
    return Match(
        manager=SYSTEM,
        unit=unit_id(name),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:index]),
        name=name,
    )
