"""Where a cgroup lies in the other v1 hierarchies: at the same path, unless a supervisor moved only some of them."""

from collections.abc import Iterator

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroups import Hierarchy, process_ids
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_cgroup_text

_MEMBERS_ASKED = 3


def paths_elsewhere(fs: HostFS, hierarchy: Hierarchy, path: str) -> dict[str, str]:
    """Return, by v1 controller, the path of the cgroup that is `path` in `hierarchy`, as its processes tell it.

    Only a cgroup of the same name counts: a process that was not moved in that hierarchy is in somebody else's.
    """
    name = path.rpartition("/")[2]
    found: dict[str, str] = {}
    if not name:
        return found
    for pid in process_ids(fs, hierarchy, path)[:_MEMBERS_ASKED]:
        try:
            text = read_cgroup_text(fs, pid)
        except (Unavailable, SourceError):
            continue
        found |= {controller: where for controller, where in _paths_named(text, name) if controller not in found}
    return found


def _paths_named(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield controller and path down to the component `name` of each line `NUMBER:CONTROLLERS:PATH` that has it."""
    for line in text.split("\n"):  # a name holds any other sign
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = path.split("/")
        if name in parts:
            where = "/".join(parts[: len(parts) - parts[::-1].index(name)])
            yield from ((controller, where) for controller in controllers.split(",") if controller)
