"""Quantities with their unit in the name, and the few conversions between them.

Energy is integer microjoules everywhere inside, time integer nanoseconds; both change once more, on the screen.
"""

MICROJOULES_PER_JOULE = 1_000_000
NANOSECONDS_PER_SECOND = 1_000_000_000
JOULES_PER_KWH = 3_600_000
USER_HZ_NANOSECONDS = 10_000_000
"""Length of one tick of /proc/stat and /proc/PID/stat: USER_HZ is 100 on every Linux kwhere runs on (proc(5))."""


def joules(energy_uj: int) -> float:
    """Return `energy_uj` in joules."""
    return energy_uj / MICROJOULES_PER_JOULE


def seconds(duration_ns: int) -> float:
    """Return `duration_ns` in seconds."""
    return duration_ns / NANOSECONDS_PER_SECOND


def energy_of(power_uw: int, duration_ns: int) -> int:
    """Return the microjoules of `power_uw` microwatts over `duration_ns`, rounded down."""
    return power_uw * duration_ns // NANOSECONDS_PER_SECOND
