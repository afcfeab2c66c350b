"""What a pod used, split over its containers and the rest of it; what is split sums to the pod, to the microjoule.

Dynamic energy of CPU and memory follows the CPU time between two looks. What no container can be charged by that (idle
energy, GPUs, what is left of a container that ended between two looks, the pod's own overhead) is the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwhere.core.terms import Component, Part
from kwhere.sampling.totals import EnergyRow

SPLIT = ((Component.CPU, Part.DYNAMIC), (Component.DRAM, Part.DYNAMIC))


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """A live container; `name` is None where nothing names it, then it is part of the rest."""

    name: str | None
    cpu_ns: int


@dataclass(slots=True)
class PodBook:
    """One run of a pod. Containers of one name, which follow each other, are one."""

    cpu_ns: dict[str, int] = field(default_factory=dict)
    rest_cpu_ns: int = 0
    energy_uj: dict[str, dict[tuple[Component, Part], int]] = field(default_factory=dict)
    row: EnergyRow = field(default_factory=dict)
    """The pod's own, as last taken."""
    _read_ns: dict[str, int] = field(default_factory=dict)
    _pod_ns: int | None = None

    def take(self, row: EnergyRow, pod_ns: int | None, containers: Mapping[str, ContainerReading]) -> None:
        """Book what was used since the last look; `pod_ns` was read after the containers.

        None: it could not be read; the energy until now is then the rest's, CPU time is made up for at the next look.
        """
        before, self.row = self.row, dict(row)
        if pod_ns is None:
            return
        grown, before_ns, self._pod_ns = self._grown(containers), self._pod_ns, pod_ns
        self.rest_cpu_ns = max(self.rest_cpu_ns, pod_ns - sum(self.cpu_ns.values()))
        if before_ns is None:
            return
        whole_ns = max(pod_ns - before_ns, sum(grown.values()))
        for key in SPLIT:
            drawn_uj = row.get(key, 0) - before.get(key, 0)
            if drawn_uj <= 0 or whole_ns <= 0:
                continue
            for name, used_ns in grown.items():
                shares = self.energy_uj.setdefault(name, {})
                shares[key] = shares.get(key, 0) + drawn_uj * used_ns // whole_ns

    def rest_uj(self) -> dict[tuple[Component, Part], int]:
        """Return what is no container's, microjoules."""
        booked = self.energy_uj.values()
        return {key: whole_uj - sum(shares.get(key, 0) for shares in booked) for key, whole_uj in self.row.items()}

    def _grown(self, containers: Mapping[str, ContainerReading]) -> dict[str, int]:
        """Return CPU time by name since the last look; one that is new counts from its beginning."""
        grown: dict[str, int] = {}
        for identifier, found in containers.items():
            if found.name is not None:
                used_ns = max(0, found.cpu_ns - self._read_ns.get(identifier, 0))
                grown[found.name] = grown.get(found.name, 0) + used_ns
                self.cpu_ns[found.name] = self.cpu_ns.get(found.name, 0) + used_ns
        self._read_ns = {identifier: found.cpu_ns for identifier, found in containers.items()}
        return grown
