"""Meters over hwmon sensors; `hwmon_energy` and `hwmon_power` are built from it."""

from collections.abc import Callable, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.hwmon import HwmonSensor, SensorFile
from kwhere.meters.failures import as_unavailable, worst
from kwhere.meters.hwmon_sensors import HwmonZone, place_sensors
from kwhere.meters.meter import Domain, MeterContext, Reading

ACPI_UNKNOWN_UW = 4_294_967_295_000
"""0xFFFFFFFF milliwatts: what an ACPI power meter says when it does not know."""
_P_MAX_UW = {DomainKind.CPU: P_MAX_MULTI_DIE_UW, DomainKind.DRAM: P_MAX_DRAM_UW}


class HwmonMeter:
    """Energy counters or power sensors of known chips; one that fails is left out of that read."""

    needs_proof = False

    def __init__(
        self, source: str, method: Method, files: Sequence[tuple[HwmonZone, SensorFile]], headroom_uw: int
    ) -> None:
        self.source = source
        self.method = method
        self.domains = tuple(sorted({zone.domain for zone, _ in files}))
        self.covers = frozenset(Component) if _measures_platform(self.domains) else frozenset()
        intervals = [zone.sensor.interval_ms for zone, _ in files if zone.sensor.interval_ms]
        # a sensor that says nothing of its averaging is taken to be new every second
        self.refresh_seconds = 0.0 if method is Method.COUNTER else max(intervals, default=1000) / 1000
        self._files = list(files)
        self._headroom_uw = headroom_uw

    def read(self, now_ns: int) -> list[Reading]:
        """Return every sensor that answers. Raises Unavailable where none does."""
        readings: list[Reading] = []
        failures: list[Unavailable] = []
        for zone, file in self._files:
            try:
                readings.append(self._reading(zone, file.read(), now_ns))
            except (Unavailable, SourceError) as error:
                failures.append(as_unavailable(error))
        if not readings:
            raise worst(failures)
        return readings

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._headroom_uw if domain.kind is DomainKind.PLATFORM else _P_MAX_UW[domain.kind]

    def close(self) -> None:
        """Give back file descriptors."""
        for _, file in self._files:
            file.close()

    def _reading(self, zone: HwmonZone, value: int, now_ns: int) -> Reading:
        if self.method is Method.COUNTER:
            check_counter(value, zone)
            return Reading(zone.domain, zone.name, now_ns, counter_uj=value)
        check_power(value, zone)
        return Reading(zone.domain, zone.name, now_ns, power_uw=value)


def check_power(power_uw: int, zone: HwmonZone) -> None:
    """Raise Unavailable for a power that means "not known": the ACPI sentinel, nothing at all, less than nothing."""
    if power_uw <= 0 or power_uw >= ACPI_UNKNOWN_UW:
        raise Unavailable("unsupported", f"{zone.sensor.paths[0]}: expected a power, found {power_uw} uW")


def check_counter(energy_uj: int, zone: HwmonZone) -> None:
    """Raise SourceError for a counter below 0."""
    if energy_uj < 0:
        raise SourceError(f"{zone.sensor.paths[0]}: expected a counter of 0 or more, found {energy_uj}")


def build_hwmon(
    context: MeterContext, source: str, method: Method, find: Callable[[HostFS], list[HwmonSensor]]
) -> HwmonMeter:
    """Return a meter over the sensors found. Raises Unavailable: absent, permission, unsupported."""
    files: list[tuple[HwmonZone, SensorFile]] = []
    failures: list[Unavailable] = []
    check = check_counter if method is Method.COUNTER else check_power
    for zone in place_sensors(find(context.fs)):
        try:
            file = SensorFile(context.fs, zone.sensor)
            check(file.read(), zone)
            files.append((zone, file))
        except (Unavailable, SourceError) as error:
            failures.append(as_unavailable(error))
    if not files:
        raise worst(failures or [Unavailable("absent", f"{source}: expected a sensor of a known chip, found none")])
    return HwmonMeter(source, method, files, context.settings.platform_headroom_uw)


def _measures_platform(domains: Sequence[Domain]) -> bool:
    return any(domain.kind is DomainKind.PLATFORM for domain in domains)
