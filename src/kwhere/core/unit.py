"""The compute unit: who it is, what it is called, what it was given."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class UnitKey:
    """Identity of one run of a unit on one node; the order is that of ties in every split.

    `manager` is one of slurm, oar, kubernetes, libvirt, docker, podman, run, systemd, session, process
    (a site rule may add one). `unit` is the manager's native id without `/`. `run` is `<unit>@<UTC seconds>`,
    or `<unit>` alone where the id is unique for ever.
    """

    manager: str
    unit: str
    run: str

    def __hash__(self) -> int:
        return hash(self.run)  # a run says almost all, and one text's hash is kept: keys are looked up in every step


@dataclass(frozen=True, slots=True)
class UnitInfo:
    """What a person calls the unit; None where the node does not know."""

    name: str | None = None
    user: str | None = None
    project: str | None = None
    node_name: str | None = None
    labels: tuple[tuple[str, str], ...] = field(default=())
    """More facts for the info series and the server, e.g. `kube_namespace`, `kube_pod`, `kube_owner`, `runtime`."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the unit was given. None is unknown (shares of idle energy are then 0), never 0 by default."""

    milli_cpus: int | None = None
    memory_bytes: int | None = None
    cpuset: frozenset[int] | None = None
    """CPUs the unit may run on, where a cpuset confines it."""
