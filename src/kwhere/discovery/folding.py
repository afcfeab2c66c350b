"""Who owns a directory once services and sessions are folded into one unit, where a resource manager rules the node."""

import re
from collections.abc import Collection

from kwhere.discovery import kubernetes, libvirt, oar, slurm, systemd
from kwhere.discovery.classify import Classifier
from kwhere.discovery.match import Match, segments_of

FOLDED = (systemd.MANAGER, systemd.SESSION)
_SLICES = ("system.slice", "user.slice")
_RULERS = (slurm.MANAGER, oar.MANAGER, kubernetes.MANAGER, libvirt.MANAGER)
_RULING_DAEMON = re.compile(r"(?:(?:.+_)?slurmd(?:-.+)?|kubelet|libvirtd|virtqemud|oar-node)(?:@.+)?\.service")


class Ownership:
    """The classifier, with the setting `units.managers` and the fold put on top."""

    def __init__(self, classifier: Classifier, managers: Collection[str] | None) -> None:
        self._classifier = classifier
        self._managers = managers
        self.folds = False
        """Whether services and sessions are one unit; never while they were asked for by name."""

    def notice(self, match: Match) -> None:
        """Learn from a directory that exists: a resource manager, or its daemon, rules this node from now on."""
        if self._managers is None and is_ruled_by(match):
            self.folds = True

    def owner(self, path: str) -> Match | None:
        """Return who owns the directory; a unit of a manager that is not shown belongs to what lies around it."""
        match = self._classifier.path(path)
        if match is not None and match.manager in FOLDED:
            return self._folded(path, match.top) if self.folds else self._shown(match)
        if match is None:
            top = segments_of(path)[:1]
            return self._folded(path, path) if self.folds and top and top[0] in _SLICES else None
        return self._shown(match)

    def _shown(self, match: Match) -> Match | None:
        if match.is_system or self._managers is None or match.manager in self._managers:
            return match
        above = match.top.rpartition("/")[0]
        return self.owner(above) if above else None

    def _folded(self, path: str, top: str) -> Match:
        first = segments_of(path)[0]
        return Match(
            manager=systemd.MANAGER,
            unit=systemd.SERVICES,
            path=path,
            top=f"/{first}" if first in _SLICES else top,
            anchor="/",
            name=systemd.SERVICES,
        )


def is_ruled_by(match: Match) -> bool:
    """Return whether a directory shows that SLURM, OAR, Kubernetes or libvirt rules the node."""
    if match.is_system:
        return _RULING_DAEMON.fullmatch(match.name or "") is not None
    return match.manager in _RULERS
