"""The one unit of `kwhere run` as a unit source: its cgroup where there is one, and its process tree."""

from collections.abc import Mapping

from kwhere.core.errors import NoData
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import CpuReading, StepReading, TrackedUnit, UnitDetail
from kwhere.local.run_meter import RunMeter


class RunSource:
    """A source of exactly one unit, known from its creation."""

    def __init__(self, key: UnitKey, meter: RunMeter, uid: int, created_ns: int) -> None:
        self._meter = meter
        self._unit = TrackedUnit(
            key=key,
            cgroup=None,
            inode=None,
            outer=None,
            parent_cgroup=None,
            info=UnitInfo(),
            allocation=Allocation(),
            from_creation=True,
            first_seen_ns=created_ns,
            counts_from_ns=created_ns,
            uid=uid,
        )
        self._started = False

    def step(self, now_ns: int) -> StepReading:
        """Return the unit's CPU time; `started` in the first step."""
        use = self._meter.read()
        started = () if self._started else (self._unit,)
        self._started = True
        return StepReading({self._unit.key: CpuReading(use.cpu_ns, use.user_ns, use.system_ns)}, started=started)

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        """Return the one unit."""
        return {self._unit.key: self._unit}

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return None: a run without an agent reads no GPU."""
        return None

    def detail(self, key: UnitKey) -> UnitDetail:
        """Raise NoData: the report reads memory and I/O once, at the end."""
        raise NoData(f"{key.unit}: read at the end of the run")

    def saved(self) -> Mapping[str, int]:
        """Return nothing: a run does not outlive its command."""
        return {}

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: the caller owns the cgroup."""
