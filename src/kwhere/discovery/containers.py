"""Containers outside Kubernetes: Docker and what looks like it, Podman, LXC."""

import re
from collections.abc import Sequence

from kwhere.discovery.match import SYSTEM, Match, join, unit_id

DOCKER = "docker"
PODMAN = "podman"
LXC = "lxc"

_ID = r"(?P<id>[0-9A-Za-z]+)"
_DOCKER_SCOPE = re.compile(rf"(?P<runtime>docker|nerdctl|cri-containerd|containerd|crio){'-'}{_ID}\.scope")
_PODMAN_NAME = re.compile(rf"libpod-(?:payload-)?{_ID}(?:\.scope)?")
_MONITOR = re.compile(r"(?:libpod|crio)-conmon-[0-9A-Za-z]+(?:\.scope)?")
_FULL_ID = re.compile(r"[0-9a-f]{64}")
_SHORT_ID = re.compile(r"[0-9A-Za-z]+")
_LXC_PAYLOAD = re.compile(r"lxc\.payload\.(?P<name>.+)")
_LXC_MONITOR = re.compile(r"lxc\.monitor(?:\..+)?")
_RUNTIMES = {"cri-containerd": "containerd"}
_DIRECTORIES = {"docker": "docker", "default": "containerd", "ecs": "docker"}


def match(segments: Sequence[str]) -> Match | None:
    """Return the deepest container of Docker or Podman that the path belongs to, or the monitor of one."""
    for index in range(len(segments) - 1, -1, -1):
        found = _monitor_at(segments, index) or _podman_at(segments, index) or _docker_at(segments, index)
        if found is not None:
            return found
    return None


def match_lxc(segments: Sequence[str]) -> Match | None:
    """Return the LXC container that the path belongs to."""
    for index in range(len(segments) - 1, -1, -1):
        name = segments[index]
        payload = _LXC_PAYLOAD.fullmatch(name)
        if payload is not None:
            return _found(segments, index, LXC, payload["name"], "lxc")
        if _LXC_MONITOR.fullmatch(name) is not None:
            return _found(segments, index, SYSTEM, "lxc", None)
        if index and segments[index - 1] in ("lxc", "lxc.payload"):
            return _found(segments, index, LXC, name, "lxc")
    return None


def _monitor_at(segments: Sequence[str], index: int) -> Match | None:
    """Return conmon's own directory: CRI-O keeps it in system.slice, Podman beside the container."""
    name = segments[index]
    lies_apart = name == "conmon" and index > 0 and segments[index - 1] == "libpod_parent"
    if lies_apart or _MONITOR.fullmatch(name) is not None:
        return _found(segments, index, SYSTEM, "conmon", None)
    return None


def _podman_at(segments: Sequence[str], index: int) -> Match | None:
    found = _PODMAN_NAME.fullmatch(segments[index])
    if found is None:
        return None
    # a container's payload may lie in a scope of the same name
    top = next(i for i, name in enumerate(segments) if (m := _PODMAN_NAME.fullmatch(name)) and m["id"] == found["id"])
    return _found(segments, top, PODMAN, found["id"], "podman")


def _docker_at(segments: Sequence[str], index: int) -> Match | None:
    name = segments[index]
    scope = _DOCKER_SCOPE.fullmatch(name)
    if scope is not None:
        return _found(segments, index, DOCKER, scope["id"], _RUNTIMES.get(scope["runtime"], scope["runtime"]))
    above = segments[index - 1] if index else ""
    if above == "docker" and name != "buildkit" and _SHORT_ID.fullmatch(name) is not None:
        return _found(segments, index, DOCKER, name, "docker")
    if above == "buildkit" and index >= 2 and segments[index - 2] == "docker":
        return _found(segments, index, DOCKER, name, "buildkit")
    if _FULL_ID.fullmatch(name) is not None:
        return _found(segments, index, DOCKER, name, _DIRECTORIES.get(segments[0]) if index else None)
    return None


def _found(segments: Sequence[str], index: int, manager: str, identifier: str, runtime: str | None) -> Match:
    return Match(
        manager=manager,
        unit=unit_id(identifier),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:index]),
        runtime=runtime,
        container=identifier if manager in (DOCKER, PODMAN) else None,
        name=identifier if manager == LXC else None,
    )
