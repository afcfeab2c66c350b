"""Which vsock CID belongs to which virtual machine: as QEMU was told on its command line."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise

from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery.libvirt import read_command as read_machine
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids, read_cgroup_text, read_command

_DEVICE = re.compile(r"vhost(?:-user)?-vsock(?:-[a-z-]+)?")
_LOWEST_CID, _HIGHEST_CID = 3, 2**32 - 2
_LARGEST_OPTION = 4096


def cid_of_command(arguments: Sequence[str]) -> int | None:
    """Return the guest-cid of QEMU's vsock device, in either form of `-device`; None without one."""
    for option, value in pairwise(arguments):
        if option.lstrip("-") == "device" and option.startswith("-"):
            cid = _cid_of_device(value)
            if cid is not None:
                return cid
    return None


def find_cids(fs: HostFS, units: Sequence[TrackedUnit]) -> dict[str, int]:
    """Return the CID of each unit by its id. One walk over /proc.

    Anyone may start a process that looks like QEMU: only one within the unit's own cgroup is believed.
    """
    by_path = {unit.cgroup: unit for unit in units if unit.cgroup}
    found: dict[str, int] = {}
    for pid in list_pids(fs) if by_path else ():
        try:
            arguments = read_command(fs, pid)
            if read_machine(arguments) is None:
                continue
            unit = _unit_of(read_cgroup_text(fs, pid), by_path)
        except (Unavailable, SourceError):
            continue
        cid = cid_of_command(arguments)
        if unit is not None and cid is not None:
            found[unit.key.unit] = cid
    return found


def _unit_of(text: str, by_path: dict[str, TrackedUnit]) -> TrackedUnit | None:
    """Return the unit in whose cgroup `/proc/PID/cgroup` says that a process is."""
    for line in text.split("\n"):  # the name of a cgroup may hold any other end of a line
        path = line.split(":", 2)[-1]
        for top, unit in by_path.items():
            if path == top or path.startswith(f"{top}/"):
                return unit
    return None


def _cid_of_device(value: str) -> int | None:
    if len(value) > _LARGEST_OPTION:
        return None
    if value.startswith("{"):
        try:
            record = json.loads(value)
        except (ValueError, RecursionError):
            return None
        driver, cid = record.get("driver"), record.get("guest-cid")
        text = str(cid) if type(cid) is int or isinstance(cid, str) else ""
    else:
        driver, *rest = value.split(",")
        text = next((word.removeprefix("guest-cid=") for word in rest if word.startswith("guest-cid=")), "")
    if not isinstance(driver, str) or _DEVICE.fullmatch(driver) is None:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return number if _LOWEST_CID <= number <= _HIGHEST_CID else None
