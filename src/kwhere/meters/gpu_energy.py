"""Energy of every GPU of one vendor: its counter, else its power over time. Built into `nvml`, `amdsmi` and others."""

from collections.abc import Sequence

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.devices.gpu import DeviceState, GpuSnapshot, GpuSource, Readings
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.energy.limits import p_max_gpu_uw
from kwhere.meters.meter import Domain, Reading

STUCK_AFTER_NS = 10 * NANOSECONDS_PER_SECOND
STUCK_POWER_UW = 5_000_000
"""A GPU that draws this much moves its counter many times within STUCK_AFTER_NS."""
UNKNOWN_LIMIT_UW = 1_000_000_000
"""Taken for the limit of a GPU that does not tell it: no board of today has a larger one."""
_POWERS = (GpuField.POWER_UW, GpuField.POWER_AVERAGE_UW, GpuField.POWER_INSTANT_UW)
GPU_LIBRARIES = frozenset({"nvml", "amdsmi", "amdgpu", "intel_gpu"})
"""Sources that each measure their own vendor's GPUs: what one says is never also in another."""
_NOT_SEEN = Domain(DomainKind.GPU)
"""Stands for GPUs that nobody has seen yet, until the library has answered."""
_MOST_GPUS = 16
_LASTING = (Absence.UNSUPPORTED, Absence.OLD_DRIVER)


class GpuMeter:
    """A `Meter` over a vendor's GPUs: domains `gpu[UUID]`, also of divided GPUs; instances have no energy of their own.

    A GPU that is lost gives no reading; what its counter still holds comes with the first one after.
    """

    method = Method.COUNTER
    covers: frozenset[Component] = frozenset()
    needs_proof = False

    def __init__(self, source: str, gpus: GpuSource) -> None:
        self.source = source
        self.refresh_seconds = gpus.interval_seconds
        self._gpus = gpus
        self._lines: dict[str, GpuLine] = {}

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Return the GPUs that were ever seen; one that stands for them until the library has answered."""
        found = self._gpus.snapshot()
        self._see(found)
        return tuple(Domain(DomainKind.GPU, uuid) for uuid in self._lines) if found.answered else (_NOT_SEEN,)

    def read(self, now_ns: int) -> Sequence[Reading]:
        """Return one reading per GPU that is up. Raises NoData before the library answered, Unavailable."""
        found = self._gpus.snapshot()
        if not found.answered:
            raise NoData(f"{self.source}: not answered yet")
        self._see(found)
        if not found.library.up:
            raise Unavailable(found.library.reason, f"{self.source}: {found.library.message or found.library.reason}")
        readings = [
            reading for state in found.devices if state.up for reading in self._lines[state.device.uuid].take(state)
        ]
        if not readings and not any(state.up for state in found.devices):
            reason = next((state.reason for state in found.devices if state.reason), "absent")
            raise Unavailable(reason, f"{self.source}: no GPU answers")
        if not readings and not any(state.up and _may_tell(state.readings) for state in found.devices):
            raise Unavailable("unsupported", f"{self.source}: no GPU tells its energy or power")
        return readings

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a GPU: 1.5 times its enforced limit."""
        if domain == _NOT_SEEN:
            return _MOST_GPUS * p_max_gpu_uw(UNKNOWN_LIMIT_UW)
        line = self._lines.get(domain.index)
        return p_max_gpu_uw(UNKNOWN_LIMIT_UW) if line is None else line.p_max_uw

    def close(self) -> None:
        """Nothing is held here: the watch has the handles."""

    def _see(self, found: GpuSnapshot) -> None:
        for state in found.devices:
            line = self._lines.get(state.device.uuid)
            if line is None:
                line = self._lines[state.device.uuid] = GpuLine(state.device.uuid)
            if state.readings is not None:
                line.learn_limit(state.readings)


def _may_tell(readings: Readings | None) -> bool:
    """Return whether a GPU's energy or power is known, or may be the next time."""
    if readings is None:
        return True
    wanted = (GpuField.ENERGY_UJ, *_POWERS)
    return any(
        name in readings.values or readings.missing.get(name, Absence.UNSUPPORTED) not in _LASTING for name in wanted
    )


class GpuLine:
    """One GPU's energy: by its counter for as long as that moves, by power over time where it does not."""

    def __init__(self, uuid: str) -> None:
        self._domain = Domain(DomainKind.GPU, uuid)
        self._energy_zone, self._power_zone = f"{uuid}/energy", f"{uuid}/power"
        self._limits_uw: tuple[int, ...] = ()
        self._counter_uj: int | None = None
        self._since: list[tuple[int, int]] = []
        """Time and power since the counter last moved: what is booked if it turns out to be stuck."""
        self._integrates = False

    @property
    def p_max_uw(self) -> int:
        """Return the largest plausible power by the limit in force and the one before it."""
        return p_max_gpu_uw(max(self._limits_uw, default=UNKNOWN_LIMIT_UW))

    def take(self, state: DeviceState) -> list[Reading]:
        """Return what a GPU's readings add; several where its counter turns out to be stuck."""
        readings = state.readings
        if readings is None or not readings.time_ns:
            return []
        counter_uj, power_uw = readings.integer(GpuField.ENERGY_UJ), _power(readings)
        if counter_uj is None and not self._integrates:
            if self._counter_uj is not None and readings.missing.get(GpuField.ENERGY_UJ) not in _LASTING:
                return []  # a passing failure: the counter goes on
            self._integrates = True
        if self._integrates or counter_uj is None:
            return [] if power_uw is None else [self._sample(readings.time_ns, power_uw)]
        return self._count(counter_uj, power_uw, readings.time_ns)

    def _count(self, counter_uj: int, power_uw: int | None, time_ns: int) -> list[Reading]:
        moved, self._counter_uj = counter_uj != self._counter_uj, counter_uj
        if moved:
            self._since.clear()
        if power_uw is not None and (not self._since or time_ns > self._since[-1][0]):
            self._since.append((time_ns, power_uw))
        if not moved and self._is_stuck():
            self._integrates = True
            backlog, self._since = self._since, []
            return [self._sample(*one) for one in backlog]
        return [Reading(self._domain, self._energy_zone, time_ns, counter_uj=counter_uj, p_max_uw=self.p_max_uw)]

    def _is_stuck(self) -> bool:
        if len(self._since) < 2 or self._since[-1][0] - self._since[0][0] < STUCK_AFTER_NS:
            return False
        powers_uw = [power_uw for _, power_uw in self._since]
        if sum(powers_uw) >= STUCK_POWER_UW * len(powers_uw):
            return True
        del self._since[0]
        return False

    def _sample(self, time_ns: int, power_uw: int) -> Reading:
        return Reading(
            self._domain,
            self._power_zone,
            time_ns,
            power_uw=power_uw,
            p_max_uw=self.p_max_uw,
            device_time=True,
            method=Method.INTEGRATED,
        )

    def learn_limit(self, readings: Readings) -> None:
        """Take in the power limit in force."""
        limit_uw = readings.integer(GpuField.POWER_LIMIT_ENFORCED_UW) or readings.integer(GpuField.POWER_LIMIT_MAX_UW)
        if limit_uw and self._limits_uw[-1:] != (limit_uw,):
            self._limits_uw = (*self._limits_uw[-1:], limit_uw)


def _power(readings: Readings) -> int | None:
    """Return the first power that the board tells: some have a mean only, some a momentary one only."""
    return next((power_uw for name in _POWERS if (power_uw := readings.integer(name)) is not None), None)
