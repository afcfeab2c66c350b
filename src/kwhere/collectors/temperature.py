"""Temperatures of the node, from hwmon chips and thermal zones."""

import re
from collections.abc import Iterator

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.collectors.patterns import Pattern
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.thermal import Temperature, read_temperatures

CELSIUS = MetricSpec("kwhere_node_temperature_celsius", Kind.GAUGE, "Temperature that a sensor shows.", ("sensor",))
PROCESSOR_CHIPS = frozenset({"coretemp", "k10temp", "k8temp", "zenpower", "cpu_thermal", "x86_pkg_temp"})

_MILLI = 1000


class TemperatureSettings(CollectorSettings):
    """Which sensors are shown."""

    exclude: Pattern = Field(
        default=r"coretemp(-\d+)?/Core \d+.*|k10temp(-\d+)?/Tccd\d+",
        description="Regular expression of sensors left out: by default the single cores, whose package is shown.",
    )
    limit: int = Field(default=4, ge=0, description="Number of sensors shown, processors first, then by name; 0 = all.")


class TemperatureCollector:
    """Reads every sensor at each scrape."""

    def __init__(self, context: CollectorContext, settings: TemperatureSettings) -> None:
        """Look for sensors. Raises Unavailable where none answers."""
        self._host = context.host
        self._settings = settings
        self._exclude = re.compile(settings.exclude)
        if not read_temperatures(self._host):
            raise Unavailable("absent", f"{self._host.path('sys/class')}: expected a temperature sensor, found none")

    def collect(self) -> Iterator[Sample]:
        """Yield the temperature of each sensor, in degrees Celsius with the thousandths the kernel gives."""
        found = [t for t in read_temperatures(self._host) if not self._exclude.fullmatch(t.sensor)]
        for temperature in sorted(found, key=_rank)[: self._settings.limit or None]:
            yield Sample(CELSIUS, (temperature.sensor,), temperature.millicelsius / _MILLI)

    def close(self) -> None:
        """Keep nothing open."""


def _rank(temperature: Temperature) -> tuple[bool, str]:
    return temperature.chip not in PROCESSOR_CHIPS, temperature.sensor


plugin = CollectorPlugin(
    name="temperature",
    summary="Temperatures of processors, disks and boards.",
    settings_class=TemperatureSettings,
    specs=(CELSIUS,),
    build=TemperatureCollector,
)
