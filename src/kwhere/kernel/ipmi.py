"""Whether the kernel knows of a BMC (Documentation/driver-api/ipmi.rst): by its driver, else by what firmware says."""

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

INTERFACES = "sys/class/ipmi"
"""Has one entry for each /dev/ipmiN, once the module ipmi_devintf is loaded."""

# SMBIOS type 38 is "IPMI device information"; IPI0001 is the ACPI id of an IPMI system interface.
_FIRMWARE = (
    ("sys/firmware/dmi/entries", "38-"),
    ("sys/bus/acpi/devices", "IPI0001"),
    ("sys/bus/platform/devices", "IPI0001"),
    ("sys/bus/platform/devices", "dmi-ipmi"),
    ("sys/bus/platform/devices", "ipmi"),
    ("sys/bus/platform/devices", "hardcode-ipmi"),
)


def find_interfaces(fs: HostFS) -> list[str]:
    """Return the names of the kernel's IPMI devices, e.g. `ipmi0`; empty where the driver is not loaded."""
    return _names(fs, INTERFACES, "ipmi")


def has_bmc(fs: HostFS) -> bool:
    """Return whether firmware or a lower driver says that there is a BMC."""
    return any(_names(fs, directory, prefix) for directory, prefix in _FIRMWARE)


def _names(fs: HostFS, directory: str, prefix: str) -> list[str]:
    try:
        return [name for name in fs.list_dir(directory) if name.startswith(prefix)]
    except (Unavailable, SourceError):
        return []
