"""What checks look at: one host, live or recorded, and what only the running machine has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwhere.core.clock import Clock
from kwhere.devices.gpu import GpuSnapshot
from kwhere.devices.gpu_activity import OutsideState
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import CgroupVersion
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.local.doctor_answers import MeterAnswer
from kwhere.meters.registry import Meters


@dataclass(frozen=True, slots=True)
class Here:
    """The machine we run on, as its checks need it."""

    fs: HostFS
    clock: Clock
    state_dir: Path
    identity: JournalIdentity
    journal_max_mebibytes: float
    has_module: Callable[[str], bool]
    """Whether a Python module is installed."""
    ask_agent: Callable[[dict[str, Any]], dict[str, Any]]
    """Asks the agent of `state_dir` through its socket. Raises Unavailable (absent, refused, …), SourceError."""
    ask_server: Callable[[str], dict[str, Any]]
    """GET of a path below the API of `kwhere up`. Raises Unavailable, NotPermitted, SourceError."""
    zone: str | None = None
    """The emission zone in the settings."""
    proposed_zone: str | None = None
    """The country that the machine's time zone suggests."""


@dataclass(frozen=True, slots=True)
class SeenGpus:
    """One vendor's GPUs as they were read."""

    source: str
    found: GpuSnapshot
    outside: tuple[OutsideState, ...] = ()
    expected: int = 0
    released: str = ""
    """Since when and by whom the agent here has given them back, in words; they were not opened then."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host under examination. What costs something is asked for by a call, and kept by whoever gives it."""

    fs: HostFS
    settings: UnitsSettings
    cgroup_version: CgroupVersion
    meters: Callable[[], Meters]
    units: Callable[[], Sequence[TrackedUnit]]
    """Those alive now, by one step of the unit sources."""
    finds_program: Callable[[str], bool]
    """Whether a program is in the PATH."""
    user: str
    """The login name that a remedy gives access to."""
    is_root: bool = False
    container: str | None = None
    """The runtime that we run in."""
    answers: Callable[[], Mapping[str, MeterAnswer]] = dict
    """What each meter says now, by source; slow ones are waited for. Nothing where nobody was asked."""
    gpus: Callable[[], Sequence[SeenGpus]] = tuple
    """The GPUs of each vendor that has some here."""
    gpu_claims: Callable[[], Sequence[ClaimSourceState]] = tuple
    """How each source of who holds a GPU does; nothing where there is no GPU."""
