"""Kubernetes pods: systemd and cgroupfs drivers, every runtime, nested in a container (kind) or not, static pods."""

import re
from collections.abc import Sequence

from kwhere.discovery.match import Match, join, unit_id

MANAGER = "kubernetes"

_QOS = ("burstable", "besteffort")
_SLICE = re.compile(
    r"(?:.*-)?kubepods(?:-(?P<qos>burstable|besteffort))?-pod(?P<uid>[0-9A-Za-z][0-9A-Za-z_-]*)\.slice"
    r"(?::(?P<runtime>[^:]+):(?P<container>.+))?"
)
_PLAIN = re.compile(r"pod(?P<uid>[0-9A-Za-z][0-9A-Za-z_-]*)")
_STATIC = re.compile(r"[0-9a-f]{32}")
_BARE = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
_RUNTIMES = (
    ("cri-containerd", "containerd"),
    ("containerd", "containerd"),
    ("crio", "crio"),
    ("docker", "docker"),
    ("libpod", "podman"),
)
_MONITOR = "crio-conmon-"


def match(segments: Sequence[str]) -> Match | None:
    """Return the deepest pod that the path belongs to, and the container in it."""
    if not any("kubepods" in name for name in segments):
        return None
    for index in range(len(segments) - 1, -1, -1):
        found = _SLICE.fullmatch(segments[index])
        if found is not None:
            return _pod(segments, index, found["uid"], found["qos"] or _qos_above(segments, index), found)
        plain = _PLAIN.fullmatch(segments[index])
        if plain is not None and any("kubepods" in name for name in segments[:index]):
            return _pod(segments, index, plain["uid"], _qos_above(segments, index), None)
    return None


def is_static(pod_uid: str) -> bool:
    """Return whether a uid is the hash of a static pod's file: the API knows it as kubernetes.io/config.hash."""
    return _STATIC.fullmatch(pod_uid) is not None


def runtime_name(word: str) -> str:
    """Return the short name of a runtime as cgroup names spell it: `cri-containerd` is containerd."""
    return dict(_RUNTIMES).get(word, word)


def _pod(segments: Sequence[str], index: int, raw_uid: str, qos: str, colons: re.Match[str] | None) -> Match:
    uid = raw_uid.replace("_", "-").rstrip("-")
    runtime: str | None = None
    container: str | None = None
    anchor = next((i for i, name in enumerate(segments[:index]) if "kubepods" in name), index - 1)
    if colons is not None and colons["container"]:
        runtime, container = runtime_name(colons["runtime"]), colons["container"]
    elif index + 1 < len(segments):
        runtime, container = _container(segments[index + 1])
    return Match(
        manager=MANAGER,
        unit=unit_id(uid),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[: anchor + 1]),
        runtime=runtime,
        container=container,
        pod_uid=uid,
        qos=qos,
        permanent=not is_static(uid),
    )


def _qos_above(segments: Sequence[str], index: int) -> str:
    above = segments[index - 1] if index else ""
    return next((qos for qos in _QOS if above == qos or above.endswith(f"kubepods-{qos}.slice")), "guaranteed")


def _container(name: str) -> tuple[str | None, str | None]:
    """Return runtime and container id of a directory right below a pod's; a monitor is the pod's own."""
    if name.startswith(_MONITOR):
        return "crio", None
    stem = name.removesuffix(".scope")
    for prefix, runtime in _RUNTIMES:
        if stem.startswith(f"{prefix}-") and len(stem) > len(prefix) + 1:
            return runtime, stem[len(prefix) + 1 :]
    if stem != name:  # a scope of a runtime we have no name for: PREFIX-ID.scope
        prefix, _, identifier = stem.rpartition("-")
        return prefix or None, identifier
    return None, name if _BARE.fullmatch(name) else None
