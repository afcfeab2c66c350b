"""DCMI "Get Power Reading": its bytes, and which readings mean a power (DCMI 1.5, 6.6.1; IPMI 2.0, table 5-2)."""

import struct
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable

NETFN_GROUP = 0x2C
CMD_POWER_READING = 0x02
GROUP_DCMI = 0xDC
POWER_REQUEST = bytes((GROUP_DCMI, 0x01, 0x00, 0x00))
"""Group, mode 1 (system power statistics), no attributes, reserved."""

UW_PER_WATT = 1_000_000
UNKNOWN_UW = 0xFFFF * UW_PER_WATT
"""All bits of the 16-bit figure set: what firmware says that does not know. No node draws that much."""

_LAYOUT = struct.Struct("<BHHHHIIB")
_ACTIVE = 0x40

_CODES = {
    0xC0: ("busy", "node busy"),
    0xC1: ("unsupported", "invalid command"),
    0xC2: ("unsupported", "command invalid for this LUN"),
    0xC3: ("timeout", "time-out while processing the command"),
    0xC4: ("busy", "out of space"),
    0xC5: ("busy", "reservation cancelled"),
    0xC6: ("unsupported", "request data truncated"),
    0xC7: ("unsupported", "request data length invalid"),
    0xC8: ("unsupported", "request data field length limit exceeded"),
    0xC9: ("unsupported", "parameter out of range"),
    0xCA: ("unsupported", "cannot return that many bytes"),
    0xCB: ("unsupported", "requested sensor, data or record not present"),
    0xCC: ("unsupported", "invalid data field in request"),
    0xCD: ("unsupported", "command illegal for this sensor or record"),
    0xCE: ("busy", "response could not be provided"),
    0xCF: ("busy", "duplicated request"),
    0xD0: ("busy", "SDR repository in update mode"),
    0xD1: ("busy", "device in firmware update mode"),
    0xD2: ("busy", "BMC initialization in progress"),
    0xD3: ("busy", "destination unavailable"),
    0xD4: ("permission", "insufficient privilege level"),
    0xD5: ("inactive", "command not supported in present state"),
    0xD6: ("unsupported", "command sub-function disabled or unavailable"),
    0xFF: ("busy", "unspecified error"),
}


@dataclass(frozen=True, slots=True)
class PowerReading:
    """What a BMC says of the power of its machine, in microwatts; None is "not available"."""

    current_uw: int | None
    active: bool
    """Whether power measurement is switched on; the figures mean nothing where it is not."""
    minimum_uw: int | None = None
    maximum_uw: int | None = None
    average_uw: int | None = None
    stamp: str | None = None
    """The BMC's own time stamp as it wrote it; good for nothing but telling whether it moves."""
    period_ms: int | None = None
    """Over how long minimum, maximum and average were taken; many BMCs mean "since they started"."""


def parse_power_reading(data: bytes, place: str) -> PowerReading:
    """Return the reading in `data`, the answer after its completion code. Raises SourceError."""
    if len(data) < _LAYOUT.size or data[0] != GROUP_DCMI:
        raise SourceError(f"{place}: expected {_LAYOUT.size} bytes that start with dc, found {data[:24].hex() or '–'}")
    _, current, minimum, maximum, average, time_s, period_ms, state = _LAYOUT.unpack_from(data)
    return PowerReading(
        current_uw=current * UW_PER_WATT,
        active=bool(state & _ACTIVE),
        minimum_uw=minimum * UW_PER_WATT,
        maximum_uw=maximum * UW_PER_WATT,
        average_uw=average * UW_PER_WATT,
        stamp=str(time_s),
        period_ms=period_ms,
    )


def check_completion(code: int, place: str) -> None:
    """Raise Unavailable with the meaning of a completion code other than 0: unsupported, inactive, busy and so on."""
    if code:
        reason, meaning = _CODES.get(code, ("unsupported", "a code of the vendor's or of the command's own"))
        raise Unavailable(reason, f"{place}: the BMC answered completion code {code:#04x}: {meaning}")


def believed_uw(reading: PowerReading, place: str) -> int:
    """Return the current power in microwatts. Raises Unavailable (inactive, unsupported) for what means "not known"."""
    if not reading.active:
        raise Unavailable("inactive", f"{place}: expected an active power measurement, found it not active")
    if reading.current_uw is None:
        raise Unavailable("inactive", f"{place}: expected a power, found that it is not available")
    if not 0 < reading.current_uw < UNKNOWN_UW:
        watts = reading.current_uw / UW_PER_WATT
        raise Unavailable("unsupported", f"{place}: expected a power, found {watts:g} W")
    return reading.current_uw
