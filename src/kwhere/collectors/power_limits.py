"""Power limits in force: of RAPL's and SCMI's zones, and of a Cray node."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.pm_counters import read_power_cap_uw
from kwhere.kernel.powercap import PowercapZone, find_zones, read_limits

LIMIT = MetricSpec(
    "kwhere_node_power_limit_watts",
    Kind.GAUGE,
    "Limit on the mean power of a zone, as the kernel has it; near 4096 W means none.",
    ("zone", "constraint"),
)


class PowerLimitsSettings(CollectorSettings):
    """How many limits are shown."""

    limit: int = Field(default=4, ge=0, description="Number of limits shown, packages first; 0 = all.")


class PowerLimitsCollector:
    """Reads the limits at each scrape: they are few, and somebody may change them."""

    def __init__(self, context: CollectorContext, settings: PowerLimitsSettings) -> None:
        """Look for limits. Raises Unavailable where there are none."""
        self._host = context.host
        self._limit = settings.limit
        self._zones = _zones(context.host)
        if not list(self.collect()):
            raise Unavailable("absent", "power_limits: expected a zone with a power limit, found none")

    def collect(self) -> Iterator[Sample]:
        """Yield every limit, in watts; a limit that cannot be read is left out."""
        names = zone_names(self._zones)
        found = [
            Sample(LIMIT, (names[limit.zone.directory], limit.constraint), limit.power_uw / MICROJOULES_PER_JOULE)
            for limit in read_limits(self._host, self._zones)
        ]
        cap_uw = read_power_cap_uw(self._host)
        if cap_uw is not None:
            found.append(Sample(LIMIT, ("node", "power_cap"), cap_uw / MICROJOULES_PER_JOULE))
        yield from found[: self._limit or None]

    def close(self) -> None:
        """Keep nothing open."""


def zone_names(zones: Sequence[PowercapZone]) -> dict[str, str]:
    """Return a name for each zone by directory: its own below its parent's, e.g. `package-0/dram`, each once.

    Where two drivers have a zone of one name, the second's has the driver's name in front.
    """
    by_directory = {zone.directory: zone for zone in zones}
    names: dict[str, str] = {}
    for zone in zones:
        above = by_directory.get(zone.parent or "")
        name = f"{above.name}/{zone.name}" if above is not None else zone.name
        if name in names.values():
            name = f"{zone.control_type}/{name}"
        names[zone.directory] = name if name not in names.values() else zone.directory
    return names


def _zones(host: HostFS) -> list[PowercapZone]:
    try:
        zones = {zone.directory: zone for file in ("energy_uj", "power_uw") for zone in find_zones(host, file)}
    except Unavailable:
        return []
    return sorted(
        zones.values(), key=lambda zone: (zone.parent is not None, zone.control_type != "intel-rapl", zone.order)
    )


plugin = CollectorPlugin(
    name="power_limits",
    summary="Power limits in force, by zone.",
    settings_class=PowerLimitsSettings,
    specs=(LIMIT,),
    build=PowerLimitsCollector,
    enabled_by_default=False,
)
