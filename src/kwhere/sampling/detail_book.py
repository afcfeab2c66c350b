"""Full readings of units, every 15 s and when it matters: memory over time, I/O, throttling, user and system time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kwhere.core.counters import nonnegative_delta, rest
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, TrackedUnit, UnitDetail
from kwhere.sampling.accounts import Account, Accounts, Sums

COUNTERS = (
    "io_read_bytes",
    "io_write_bytes",
    "io_read_operations",
    "io_write_operations",
    "throttled_ns",
    "cpu_user_ns",
    "cpu_system_ns",
)
"""Cumulative readings that become sums, in the order in which the journal keeps them."""

ReadDetail = Callable[[UnitKey], UnitDetail]


@dataclass(slots=True)
class _Mark:
    """Where a unit's readings stood."""

    counters: dict[str, int] = field(default_factory=dict)
    values: tuple[int | None, ...] = ()
    """The same in the order of COUNTERS, to see at a glance that nothing moved."""
    memory_bytes: int | None = None
    time_ns: int = 0


class DetailBook:
    """Adds differences of full readings to accounts; inner units are taken out of their outer's, with signed carry."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._marks: dict[UnitKey, _Mark] = {}
        self._carries: dict[tuple[UnitKey, str], int] = {}
        self._restored: dict[UnitKey, dict[str, int]] = {}
        self._inside: dict[UnitKey, set[UnitKey]] = {}
        self._current_bytes: dict[UnitKey, int] = {}
        self.version = 0
        """Changes whenever resident memory was read anew."""
        self.resident_bytes: dict[UnitKey, int] = {}
        """Anonymous memory of live units as last read."""
        self.errors = 0

    def read(self, units: Iterable[TrackedUnit], detail_of: ReadDetail, now_ns: int) -> None:
        """Read these units, inner ones first, and book what was added. A unit that is gone is passed over."""
        ordered = sorted(units, key=lambda unit: -(unit.cgroup or "").count("/"))
        for unit in ordered:
            try:
                detail = detail_of(unit.key)
            except NoData:
                continue
            except (Unavailable, SourceError):
                self.errors += 1
                continue
            self._book(unit, self._accounts.of(unit), detail, now_ns)
        self.version += 1

    def forget(self, unit: TrackedUnit) -> None:
        """Drop what is remembered of a unit that ended."""
        key = unit.key
        self._marks.pop(key, None)
        self.resident_bytes.pop(key, None)
        self._current_bytes.pop(key, None)
        self._inside.pop(key, None)
        if unit.outer in self._inside:
            self._inside[unit.outer].discard(key)
        for name in COUNTERS:
            self._carries.pop((key, name), None)

    def saved(self) -> Mapping[UnitKey, Mapping[str, int]]:
        """Return cumulative readings of live units, for the journal."""
        return {key: dict(mark.counters) for key, mark in self._marks.items()}

    def restore(self, counters: Mapping[UnitKey, Mapping[str, int]]) -> None:
        """Go on from readings saved in this boot."""
        self._restored = {key: dict(values) for key, values in counters.items()}

    def _book(self, unit: TrackedUnit, account: Account, detail: UnitDetail, now_ns: int) -> None:
        account.detail = detail
        account.detail_total_ns = account.cpu.total_ns if account.cpu is not None else None
        mark = self._marks.get(unit.key)
        if mark is None:
            mark = self._marks[unit.key] = _Mark(self._restored.pop(unit.key, {}), time_ns=unit.first_seen_ns)
            if unit.outer is not None:
                self._inside.setdefault(unit.outer, set()).add(unit.key)
        values = _values(detail, account.cpu)
        if values != mark.values:
            for name, value in zip(COUNTERS, values, strict=True):
                if value is not None:
                    self._count(unit, account.sums, mark, name, value)
            mark.values = values
        if detail.memory_current_bytes is not None:
            self._remember(unit, account, mark, detail.memory_current_bytes, now_ns)
        peak = detail.memory_peak_bytes if detail.memory_peak_bytes is not None else detail.memory_current_bytes
        if peak is not None:
            account.memory_peak_bytes = max(peak, account.memory_peak_bytes or 0)
        if detail.memory_anon_bytes is not None:
            self.resident_bytes[unit.key] = detail.memory_anon_bytes
        mark.time_ns = now_ns

    def _count(self, unit: TrackedUnit, sums: Sums, mark: _Mark, name: str, value: int) -> None:
        before = mark.counters.get(name, 0 if unit.from_creation else value)
        delta = nonnegative_delta(before, value)
        mark.counters[name] = value
        if unit.outer is not None:
            owed = (unit.outer, name)
            self._carries[owed] = self._carries.get(owed, 0) - delta
        own = rest(delta, 0, self._carries.pop((unit.key, name), 0))
        if own.carry:
            self._carries[(unit.key, name)] = own.carry
        setattr(sums, name, (getattr(sums, name) or 0) + own.amount)

    def _remember(self, unit: TrackedUnit, account: Account, mark: _Mark, current_bytes: int, now_ns: int) -> None:
        """Integrate memory by trapezoids; before the first reading it is taken for what that reading says."""
        inner = self._inside.get(unit.key, ())
        own = max(0, current_bytes - sum(self._current_bytes.get(key, 0) for key in inner))
        self._current_bytes[unit.key] = current_bytes
        before = own if mark.memory_bytes is None else mark.memory_bytes
        elapsed_ns = max(0, now_ns - mark.time_ns)
        account.sums.memory_byte_ns = (account.sums.memory_byte_ns or 0) + (before + own) * elapsed_ns // 2
        mark.memory_bytes = own


def _values(detail: UnitDetail, cpu: CpuReading | None) -> tuple[int | None, ...]:
    """Return cumulative readings in the order of COUNTERS; user and system time from the step where that has them."""
    user_ns, system_ns = detail.cpu_user_ns, detail.cpu_system_ns
    if cpu is not None and cpu.user_ns is not None and cpu.system_ns is not None:
        user_ns, system_ns = cpu.user_ns, cpu.system_ns
    return (
        detail.io_read_bytes,
        detail.io_write_bytes,
        detail.io_read_operations,
        detail.io_write_operations,
        detail.throttled_ns,
        user_ns,
        system_ns,
    )
