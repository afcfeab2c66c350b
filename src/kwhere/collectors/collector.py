"""What a collector is built from and what it gives: the protocol, its settings, its context, its plug-in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from kwhere.core.clock import Clock
from kwhere.core.metrics import MetricSpec, Sample
from kwhere.devices.gpu import GpuSource
from kwhere.discovery.gpu_holders import NodeMapping
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.frequency import FrequencyMonitor
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.journal_stats import JournalStats
from kwhere.sampling.totals import TotalsBoard


class CollectorSettings(BaseModel):
    """Base of every collector's settings: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=CollectorSettings)


@dataclass(frozen=True, slots=True)
class CollectorContext:
    """All that a collector may be built from; what this process does not have is None."""

    host: HostFS
    clock: Clock
    totals: TotalsBoard | None = None
    """The sampler's totals; `snapshot()` may be called from any thread."""
    journal: Callable[[], JournalStats] | None = None
    """What the journal counted since the process began."""
    config_sha256: str | None = None
    """Hex digest of the configuration in force."""
    frequency: FrequencyMonitor | None = None
    """Reads CPU frequencies in a thread of its own, for all collectors that show them."""
    gpus: Sequence[GpuSource] = ()
    """GPUs of each vendor, read beside the steps; `snapshot()` may be called from any thread."""
    gpu_mapping: NodeMapping | None = None
    """Who holds which GPU, and how each source of that does."""
    units: UnitsSettings = field(default_factory=UnitsSettings)
    """How units are found on this node."""


class Collector(Protocol):
    """One subject's samples. Called by one thread at a time, not always the same."""

    def collect(self) -> Iterator[Sample]:
        """Yield what can be said now. Raises NoData, Unavailable or SourceError; what was yielded before is kept."""
        ...

    def close(self) -> None:
        """Give back file descriptors."""
        ...


@dataclass(frozen=True, slots=True)
class CollectorPlugin(Generic[S]):
    """A collector as its module offers it under the name `plugin`.

    `name` is that of `--collector.NAME` and `collect[]=NAME`. `specs` are all metrics it can ever emit. `build`
    raises Unavailable where there is nothing to read here; it is tried again later.
    """

    name: str
    summary: str
    settings_class: type[S]
    specs: tuple[MetricSpec, ...]
    build: Callable[[CollectorContext, S], Collector]
    enabled_by_default: bool = True


AnyPlugin = CollectorPlugin[Any]
"""A plug-in whose settings class is known at run time only."""
