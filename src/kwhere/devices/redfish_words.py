"""The choices a site has about its Redfish services; light, for settings."""

from enum import StrEnum


class RedfishAuth(StrEnum):
    """How a Redfish service is told user and password."""

    SESSION = "session"
    BASIC = "basic"


class PowerResource(StrEnum):
    """Which Redfish resource shows the power."""

    POWER = "power"
    ENVIRONMENT = "environment"
    SENSOR = "sensor"
    ENERGY = "energy"
    """The energy counter in EnvironmentMetrics."""
