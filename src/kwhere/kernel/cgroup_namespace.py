"""Paths of `/proc/PID/cgroup` as the mounted trees have them, for a reader in a cgroup namespace of its own.

The kernel writes them relative to where the reader's namespace begins (cgroup_namespaces(7)): an agent in a container
reads `/../podU/…` of its neighbours, while the host's tree that is mounted for it begins at the host's root.
"""

from collections.abc import Mapping, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroups import CgroupLayout, Hierarchy, child_directories, detect_layout
from kwhere.kernel.hostfs import CgroupRoots, HostFS

_ABOVE = ".."
_PROCS_LIMIT_BYTES = 1 << 22


def absolute_paths(text: str, roots: Mapping[str, str]) -> str:
    """Return the text of a `/proc/PID/cgroup` with the paths of the tree; `roots` by the controllers of a line."""
    return "\n".join(_absolute(line, roots) for line in text.split("\n")) if roots else text


def find_roots(fs: HostFS) -> CgroupRoots:
    """Return where our namespace begins in the trees below `cgroup/`.

    The first process tells how deep that is, and the directory at that depth is the one in which we are.
    """
    try:
        init, own, layout = _paths(fs, "1"), _paths(fs, "self"), detect_layout(fs)
        pid = fs.read_link("proc/self").encode()
    except (Unavailable, SourceError):
        return CgroupRoots()
    found: dict[str, str] = {}
    are_whole = True
    for controllers, path in init.items():
        depth, hierarchy = _names(path).count(_ABOVE), _hierarchy(layout, controllers)
        if depth and hierarchy is not None:
            inside = [name for name in _names(own.get(controllers, "/")) if name != _ABOVE]
            root = _holding(fs, hierarchy, depth, inside, pid)
            if root is None:
                are_whole = False
            else:
                found[controllers] = root
    return CgroupRoots(found, are_whole)


def _paths(fs: HostFS, process: str) -> dict[str, str]:
    text = fs.read(f"proc/{process}/cgroup").decode(errors="surrogateescape")
    lines = (line.split(":", 2) for line in text.split("\n"))
    return {parts[1]: parts[2] for parts in lines if len(parts) == 3}


def _hierarchy(layout: CgroupLayout, controllers: str) -> Hierarchy | None:
    if not controllers:
        return layout.unified
    return next((layout.controllers[name] for name in controllers.split(",") if name in layout.controllers), None)


def _holding(fs: HostFS, hierarchy: Hierarchy, depth: int, inside: Sequence[str], pid: bytes) -> str | None:
    """Return the directory so deep that has the process in it, or further `inside` it; None where none has."""
    level = [""]
    for _ in range(depth):
        level = [f"{path}/{name}" for path in level for name in _children(fs, hierarchy, path or "/")]
    for path in level:
        try:
            data = fs.read(hierarchy.file("/".join((path, *inside)), "cgroup.procs"), _PROCS_LIMIT_BYTES)
        except (Unavailable, SourceError):  # gone, or not so deep here
            continue
        if pid in data.split():
            return path
    return None


def _children(fs: HostFS, hierarchy: Hierarchy, path: str) -> list[str]:
    try:
        return [name for name, _ in child_directories(fs, hierarchy, path)]
    except (Unavailable, SourceError):
        return []


def _absolute(line: str, roots: Mapping[str, str]) -> str:
    parts = line.split(":", 2)
    root = roots.get(parts[1]) if len(parts) == 3 and parts[2].startswith("/") else None
    if root is None:
        return line
    names = _names(root)
    for name in _names(parts[2]):
        if name != _ABOVE:
            names.append(name)
        elif names:
            names.pop()
    return f"{parts[0]}:{parts[1]}:/{'/'.join(names)}"


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
