"""Checks of what this process may: open files, its clock, cgroups of its own."""

import os
import resource

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import RESERVED_DESCRIPTORS
from kwhere.local.cgroup import is_delegated, parse_own_paths, places
from kwhere.local.doctor import Check, Examination, Remedy, missing, ok, warning
from kwhere.local.doctor_clock import clock_error_us
from kwhere.local.doctor_place import Place

FILES_OF_A_UNIT = 8
"""Kept open per unit at most: CPU time, memory, I/O, pressure, events."""
_GOOD_CLOCK_US = 2_000_000
"""Beyond this a server flags a node's slots."""


def check_clock(place: Place) -> Check:
    """Say whether the clock is synchronised: slots of a node that is off by 2 s are flagged."""
    try:
        error_us = clock_error_us()
    except Unavailable as error:
        return missing("clock", "not told", f"{error}.")
    if error_us is not None and error_us <= _GOOD_CLOCK_US:
        return ok("clock", f"synchronised, error at most {error_us / 1000:.0f} ms")
    found = "not synchronised" if error_us is None else f"error may be {error_us / 1e6:.1f} s"
    why = "Energy stays right; its times may be wrong, and a server flags what is off by more than 2 s."
    if place.container is not None:
        return missing("clock", found, f"{why} The host sets the clock of a container.")
    if not place.finds_program("timedatectl"):
        return warning("clock", found, f"{why} Install a time service, e.g. chrony.")
    return warning("clock", found, why, Remedy("sudo timedatectl set-ntp true", "sudo timedatectl set-ntp false"))


def check_open_files(place: Place) -> Check:
    """Say whether enough files may be kept open for the units that are here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = RESERVED_DESCRIPTORS + FILES_OF_A_UNIT * len(place.units())
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return ok("open_files", "unlimited" if hard == resource.RLIM_INFINITY else f"{hard} allowed, {needed} wanted")
    return warning(
        "open_files",
        f"{hard} allowed, {needed} wanted",
        "Files are opened at each reading instead of being kept: sampling costs more CPU time.",
        Remedy(
            f"sudo prlimit --pid $$ --nofile={max(65_536, needed)}",
            f"prlimit --pid $$ --nofile={soft}:{hard}",
            title="for this shell and what it starts",
        ),
    )


def check_run(place: Place) -> Check:
    """Say whether `kwhere run` can give a command a cgroup of its own."""
    try:
        layout = detect_layout(place.fs)
        own = parse_own_paths(place.fs.read_text("proc/self/cgroup"))
    except (Unavailable, SourceError):
        return missing(
            "run", "by the process tree", "There are no cgroups; `kwhere run` follows the command's children."
        )
    for hierarchy, parent in places(layout, own):
        directory = place.fs.path(hierarchy.directory(parent))
        if os.access(directory, os.W_OK) and (not hierarchy.is_v2 or is_delegated(directory)):
            return ok("run", "in a cgroup of its own")
    why = "The cgroup we are in is not delegated to us; `kwhere run` follows the command's children instead."
    if not place.finds_program("systemd-run"):
        return missing("run", "by the process tree", why)
    scope = "" if place.is_root else "--user "
    command = f"systemd-run {scope}--scope -p Delegate=yes kwhere run -- COMMAND"
    return missing("run", "by the process tree", why, Remedy(command, title="for one command"))


KERNEL_CHECKS = (
    Examination("clock", "Kernel", check_clock),
    Examination("open_files", "Kernel", check_open_files),
)
UNIT_CHECKS = (Examination("run", "Units", check_run),)
