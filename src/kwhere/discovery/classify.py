"""Which unit owns a cgroup path, a process or a command: the rules in their order."""

from collections.abc import Sequence

from kwhere.discovery import containers, kubernetes, libvirt, oar, run, site, slurm, systemd
from kwhere.discovery.match import Match, Rule, segments_of
from kwhere.discovery.settings import UnitsSettings


class Classifier:
    """The first rule that knows a path decides: site rules, then SLURM, OAR, Kubernetes, libvirt, containers, …."""

    def __init__(self, settings: UnitsSettings | None = None) -> None:
        settings = settings or UnitsSettings()
        self._rules: tuple[Rule, ...] = (
            *(site.rule_for(rule) for rule in settings.site_rules),
            slurm.match,
            oar.rule_for(settings.oar_prefix),
            kubernetes.match,
            libvirt.match,
            containers.match,
            containers.match_lxc,
            run.match,
            systemd.match_daemon,
            systemd.match_unit,
            systemd.match_session,
        )

    def path(self, path: str) -> Match | None:
        """Return the owner of a cgroup directory (v1 or v2, below its hierarchy's root); None where it has none."""
        ranked = self._ranked(path)
        return ranked[1] if ranked else None

    def cgroup_text(self, text: str, controllers: frozenset[str] | None = None) -> Match | None:
        """Return the owner of a process by the text of its `/proc/PID/cgroup`: the deepest over all lines.

        `controllers` as for `paths_of`. Hierarchies may disagree; the line whose rule comes first wins, and among
        those the deepest unit.
        """
        best: tuple[tuple[int, int, int], Match] | None = None
        for path in paths_of(text, controllers):
            ranked = self._ranked(path)
            if ranked is None:
                continue
            rank, found = ranked
            order = (-rank, found.top.count("/"), found.path.count("/"))
            if best is None or order > best[0]:
                best = order, found
        return best[1] if best else None

    def outer(self, inner: Match) -> Match | None:
        """Return the unit that `inner` lies in, None where it lies in none (a daemon's directory is none)."""
        above = inner.top.rpartition("/")[0]
        found = self.path(above) if above else None
        return None if found is None or found.is_system else found

    def _ranked(self, path: str) -> tuple[int, Match] | None:
        segments = segments_of(path)
        if not segments:
            return None
        for rank, rule in enumerate(self._rules):
            found = rule(segments)
            if found is not None:
                return rank, found
        return None


def paths_of(text: str, controllers: frozenset[str] | None = None) -> Sequence[str]:
    """Return the cgroup path of every line of `/proc/PID/cgroup`; lines of another form are left out.

    With `controllers` only the lines of these: `cpuacct`, or `""` for the v2 tree.
    """
    found = []
    for line in text.split("\n"):
        parts = line.split(":", 2)  # a path may hold colons
        if len(parts) != 3 or not parts[2].startswith("/"):
            continue
        if controllers is None or not controllers.isdisjoint(parts[1].split(",")):
            found.append(parts[2])
    return found
