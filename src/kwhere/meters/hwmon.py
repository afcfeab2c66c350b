"""Meters over hwmon sensors; `hwmon_energy` and `hwmon_power` are built from it."""

from collections.abc import Callable, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.hwmon import HwmonSensor, SensorFile
from kwhere.meters.asked import AskedMeter
from kwhere.meters.failures import as_unavailable, read_all, worst
from kwhere.meters.hwmon_sensors import HwmonZone, place_sensors
from kwhere.meters.meter import PLATFORM, Domain, Meter, MeterContext, Reading

ACPI_UNKNOWN_UW = 2_147_483_647_000
"""0xFFFFFFFF milliwatts is what an ACPI power meter says when it does not know; signed, 0x7FFFFFFF: this and above."""
UNKNOWN_UW = frozenset({0xFFFFFFFF, 0x7FFFFFFF})
"""The same without the driver's factor."""
GIVE_UP_SECONDS = 10.0
ACPI_CHIPS = frozenset({"power_meter", "acpi_power_meter"})
_P_MAX_UW = {DomainKind.CPU: P_MAX_MULTI_DIE_UW, DomainKind.DRAM: P_MAX_DRAM_UW}


class HwmonMeter:
    """Energy counters or power sensors of known chips; one that fails is left out of that read."""

    needs_proof = False

    def __init__(
        self,
        source: str,
        method: Method,
        sensors: Sequence["OpenSensor"],
        covers: frozenset[Component],
        headroom_uw: int,
    ) -> None:
        """`covers` is what lies inside a platform sensor, where one is among them."""
        self.source = source
        self.method = method
        self.domains = tuple(sorted({sensor.zone.domain for sensor in sensors}))
        self.covers = covers if PLATFORM in self.domains else frozenset()
        intervals = [one.zone.sensor.interval_ms for one in sensors if one.zone.sensor.interval_ms]
        # a sensor that says nothing of its averaging is taken to be new every second
        self.refresh_seconds = 0.0 if method is Method.COUNTER else max(intervals, default=1000) / 1000
        self._sensors = list(sensors)
        self._headroom_uw = headroom_uw

    def read(self, now_ns: int) -> list[Reading]:
        """Return every sensor that answers. Raises Unavailable where none does."""
        return read_all(self._sensors, lambda sensor: self._reading(sensor.zone, sensor.read(), now_ns))

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._headroom_uw if domain.kind is DomainKind.PLATFORM else _P_MAX_UW[domain.kind]

    def close(self) -> None:
        """Give back file descriptors."""
        for sensor in self._sensors:
            sensor.close()

    def _reading(self, zone: HwmonZone, value: int, now_ns: int) -> Reading:
        if self.method is Method.COUNTER:
            check_counter(value, zone)
            return Reading(zone.domain, zone.name, now_ns, counter_uj=value)
        check_power(value, zone)
        return Reading(zone.domain, zone.name, now_ns, power_uw=value)


def check_power(power_uw: int, zone: HwmonZone) -> None:
    """Raise Unavailable for a power that means "not known": the ACPI sentinel, nothing at all, less than nothing."""
    if power_uw <= 0 or power_uw >= ACPI_UNKNOWN_UW or power_uw in UNKNOWN_UW:
        raise Unavailable("unsupported", f"{zone.sensor.paths[0]}: expected a power, found {power_uw} uW")


def check_counter(energy_uj: int, zone: HwmonZone) -> None:
    """Raise SourceError for a counter below 0."""
    if energy_uj < 0:
        raise SourceError(f"{zone.sensor.paths[0]}: expected a counter of 0 or more, found {energy_uj}")


class OpenSensor:
    """A sensor and its file, which is opened when it is first read: an ACPI meter may block in that."""

    __slots__ = ("_file", "_fs", "zone")

    def __init__(self, fs: HostFS, zone: HwmonZone) -> None:
        self.zone = zone
        self._fs = fs
        self._file: SensorFile | None = None

    def read(self) -> int:
        """Return the value in the kernel's unit. Raises Unavailable or SourceError."""
        if self._file is None:
            self._file = SensorFile(self._fs, self.zone.sensor)
        return self._file.read()

    def close(self) -> None:
        """Give back the file descriptor."""
        if self._file is not None:
            self._file.close()


def build_hwmon(
    context: MeterContext, source: str, method: Method, find: Callable[[HostFS], list[HwmonSensor]]
) -> Meter:
    """Return a meter over the sensors found. Raises Unavailable: absent, permission, unsupported.

    ACPI meters may wait for the BMC at every read: on a running machine a thread of their own asks them, and nothing
    is read here.
    """
    placed = place_sensors(find(context.fs), context.settings.hwmon.sensors)
    headroom_uw = context.settings.platform_headroom_uw
    sensors = [OpenSensor(context.fs, zone) for zone in placed.zones]
    if not context.fs.is_recorded and any(zone.sensor.chip in ACPI_CHIPS for zone in placed.zones):
        meter = HwmonMeter(source, method, sensors, placed.covers, headroom_uw)
        return AskedMeter(meter, GIVE_UP_SECONDS, context.clock_ns)
    return HwmonMeter(source, method, _readable(sensors, source, method), placed.covers, headroom_uw)


def _readable(sensors: Sequence[OpenSensor], source: str, method: Method) -> list[OpenSensor]:
    """Return the sensors that answer. Raises Unavailable where none does."""
    readable: list[OpenSensor] = []
    failures: list[Unavailable] = []
    check = check_counter if method is Method.COUNTER else check_power
    for sensor in sensors:
        try:
            check(sensor.read(), sensor.zone)
            readable.append(sensor)
        except (Unavailable, SourceError) as error:
            failures.append(as_unavailable(error))
    if not readable:
        raise worst(failures or [Unavailable("absent", f"{source}: expected a sensor of a known chip, found none")])
    return readable
