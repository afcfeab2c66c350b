"""hwmon power sensors, integrated over time: ACPI power meters, Grace, Ampere, IBM's machines."""

from kwhere.core.terms import Method
from kwhere.kernel.hwmon import find_power_sensors
from kwhere.meters.hwmon import build_hwmon
from kwhere.meters.meter import Meter, MeterContext, Plugin


def build(context: MeterContext) -> Meter:
    """Return the meter of power sensors. Raises Unavailable: absent, permission, unsupported."""
    return build_hwmon(context, "hwmon_power", Method.INTEGRATED, find_power_sensors)


plugin = Plugin("hwmon_power", build)
