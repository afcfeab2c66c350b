"""hwmon energy counters: amd_energy, IBM's machines."""

from kwhere.core.terms import Method
from kwhere.kernel.hwmon import find_energy_sensors
from kwhere.meters.hwmon import build_hwmon
from kwhere.meters.meter import Meter, MeterContext, Plugin


def build(context: MeterContext) -> Meter:
    """Return the meter of energy counters. Raises Unavailable: absent, permission, unsupported."""
    return build_hwmon(context, "hwmon_energy", Method.COUNTER, find_energy_sensors)


plugin = Plugin("hwmon_energy", build)
