"""The seam: what a resource manager is asked for."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from kwhere.core.managed import Accounts, Changes, ManagerNode, ManagerUnit, Queue
from kwhere.core.metrics import Sample
from kwhere.core.timespan import Span
from kwhere.resource_managers.notes import NoteBook


class ResourceManager(Protocol):
    """One manager of one cluster. Methods raise Unavailable (not reached, not permitted) and SourceError (nonsense)."""

    name: str
    """As configured: slurm, kubernetes, openstack, oar, …"""
    cluster: str

    def fetch_units(self, span: Span) -> Iterable[ManagerUnit]:
        """Yield every run that lived at some time within `span`, whatever it is now; any number of times the same."""
        ...

    def fetch_accounts(self) -> Accounts:
        """Return all projects and who may charge them; empty where the manager knows none."""
        ...

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return all nodes."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


@runtime_checkable
class QueueingManager(ResourceManager, Protocol):
    """A manager that also tells what waits in its queue."""

    def fetch_queue(self) -> Queue:
        """Return what waits now and, where it can tell, what has begun."""
        ...


@runtime_checkable
class WatchingManager(ResourceManager, Protocol):
    """A manager that also pushes. It is not asked for spans then: what it no longer knows it cannot tell."""

    def watch(self, cursor: str | None) -> Changes:
        """Return what changed since `cursor`, waiting a bounded time; None, or a past it forgot: all it knows."""
        ...


@runtime_checkable
class NotingManager(ResourceManager, Protocol):
    """A manager in whose own records of ended units something may be written, where its settings want it."""

    notes: NoteBook | None


@runtime_checkable
class ObservingManager(ResourceManager, Protocol):
    """A manager that knows more than units: things of its cluster worth a metric."""

    def samples(self, cluster: str) -> Iterable[Sample]:
        """Return what it last read, asking nobody; `cluster` is "" where there is but one such manager. Any thread."""
        ...
