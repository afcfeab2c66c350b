"""Checks of finding units: cgroups, what they account, managers, process groups, and limits on the way."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.discovery import systemd
from kwhere.discovery.choose import wants_processes
from kwhere.discovery.settings import MANAGERS
from kwhere.kernel.cgroups import CgroupLayout, descend, detect_layout
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids, read_stat
from kwhere.local.doctor import Check, Examination, Remedy, counted, failed, missing, ok, warning
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import kernel_argument, kernel_setting

_DAEMONS = {
    "slurmd": "slurm",
    "slurmstepd": "slurm",
    "kubelet": "kubernetes",
    "libvirtd": "libvirt",
    "virtqemud": "libvirt",
    "oar-node": "oar",
    "dockerd": "docker",
    "systemd-logind": "session",
}
_ACCOUNTS = {
    "memory": ("memory.current", "memory.usage_in_bytes"),
    "io": ("io.stat", "blkio.throttle.io_service_bytes"),
}
_V1_NAME = {"memory": "memory", "io": "blkio"}
_SYSTEMD_WORD = {"memory": "Memory", "io": "IO"}
_WATCHED = "proc/sys/fs/inotify/max_user_watches"
_MOST_DIRECTORIES = 100_000
_HIDEPID = re.compile(r"\bhidepid=(?!0\b|off\b)(\w+)")


def check_cgroups(place: Place) -> Check:
    """Say which control groups there are and where CPU time comes from."""
    try:
        layout = detect_layout(place.fs, place.cgroup_version)
    except Unavailable as error:
        return missing("cgroups", "none with CPU time", f"{error}. Process groups by user and command serve instead.")
    names = sorted(layout.controllers) or _unified_controllers(place.fs, layout)
    source = "cpu.stat" if layout.cpu[0].is_v2 else "cpuacct"
    return ok("cgroups", f"{layout.name}, CPU time from {source}", f"Controllers: {', '.join(names)}." if names else "")


def check_memory(place: Place) -> Check:
    """Say whether the kernel accounts memory per unit."""
    return _check_accounting("memory", place)


def check_io(place: Place) -> Check:
    """Say whether the kernel accounts I/O per unit."""
    return _check_accounting("io", place)


def check_managers(place: Place) -> Check:
    """Say whose units are here, and whose daemons."""
    units = Counter(unit.key.manager for unit in place.units())
    daemons = set(_daemons(place.fs))
    here = [name for name in (*MANAGERS, *sorted(units.keys() - set(MANAGERS))) if units[name] or name in daemons]
    found = ", ".join(f"{name} {units[name]}" for name in here)
    idle = [name for name in here if not units[name]]
    notes = [f"Running without a unit now: {', '.join(idle)}." if idle else ""]
    absent = [name for name in MANAGERS if name not in here and name not in ("process", "run", "session")]
    notes.append(f"Not seen: {', '.join(absent)}." if absent else "")
    why = " ".join(note for note in notes if note)
    if not units:
        return missing("units", "none alive now", f"All work is booked to `system`. {why}")
    return ok("units", f"{sum(units.values())} alive: {found}", why)


def check_processes(place: Place) -> Check:
    """Say whether processes outside every unit's cgroup become units by user and command."""
    try:
        layout = detect_layout(place.fs, place.cgroup_version)
    except Unavailable:
        layout = None
    mode = f"units.processes: {place.settings.processes}"
    if wants_processes(place.fs, place.settings, layout):
        return ok(
            "process_groups", f"in use ({mode})", "Processes in no unit's cgroup are grouped by user and command."
        )
    return ok("process_groups", f"not in use ({mode})", "Processes in no unit's cgroup are `system`.")


def check_proc(place: Place) -> Check:
    """Say whether /proc shows other users' processes."""
    options = _proc_mount_options(place.fs)
    hidden = _HIDEPID.search(options)
    if hidden is None:
        return ok("proc", "shows the processes of all users")
    if place.is_root:
        return ok("proc", f"hidepid={hidden[1]}, which does not concern root")
    mount = place.fs.path("proc")
    return failed(
        "proc",
        f"hides other users' processes (hidepid={hidden[1]})",
        "Their units have no user, name or process count, and no process groups.",
        Remedy(
            f'sudo mount -o remount,gid="$(id -g)" {mount}',
            f"sudo mount -o remount,gid=0 {mount}",
            "Members of your primary group then see the processes and command lines of every user.",
            "until the next boot",
        ),
    )


def check_inotify(place: Place) -> Check:
    """Say whether there are watches enough to see every new unit by its event."""
    try:
        allowed = place.fs.read_int(_WATCHED)
    except Unavailable:
        return missing("inotify", "not told", "New units are found by the scan alone.")
    directories = _count_directories(place)
    needed = min(place.settings.max_watches, 2 * directories + 64)
    if allowed >= needed:
        return ok("inotify", f"{allowed} watches allowed, {counted(directories, 'cgroup')}")
    return warning(
        "inotify",
        f"{allowed} watches allowed, about {needed} wanted",
        "Some new units are found by the scan alone, and their first seconds are booked by extrapolation.",
        kernel_setting("fs.inotify.max_user_watches", max(65_536, needed), allowed),
    )


def _check_accounting(kind: str, place: Place) -> Check:
    name = f"cgroup_{kind}"
    try:
        layout = detect_layout(place.fs, place.cgroup_version)
    except Unavailable:
        return missing(name, "no cgroups", "Process groups tell what /proc tells.")
    if not _has_controller(kind, place.fs, layout):
        return _without_controller(kind, name, place)
    # `services` is many cgroups in one: what its slice is told need not hold for each
    units = [unit for unit in place.units() if unit.cgroup is not None and unit.key.unit != systemd.SERVICES]
    without = [unit.key for unit in units if not _accounts(kind, unit.cgroup or "/", place.fs, layout)]
    if not units:
        return ok(name, "accounted by the kernel", "No unit with a cgroup is alive to try it on.")
    if not without:
        return ok(name, f"accounted for all of {counted(len(units), 'unit')}")
    found = f"accounted for {len(units) - len(without)} of {counted(len(units), 'unit')}"
    return _partly(kind, name, found, without, place)


def _without_controller(kind: str, name: str, place: Place) -> Check:
    what = "memory" if kind == "memory" else "I/O"
    why = f"The kernel accounts no {what} per cgroup: it is switched off at boot or not built in."
    if kind == "memory":
        return warning(name, "no memory controller", why, kernel_argument("cgroup_enable=memory", place.finds_program))
    return missing(name, "no I/O controller", why)


def _partly(kind: str, name: str, found: str, without: Sequence[UnitKey], place: Place) -> Check:
    names = ", ".join(f"{key.manager}/{key.unit}" for key in without[:3]) + (", …" if len(without) > 3 else "")
    why = f"The controller is not handed down to {names}."
    by_systemd = any(key.manager in (systemd.MANAGER, systemd.SESSION) for key in without)
    if not by_systemd or not place.finds_program("systemctl"):
        return missing(name, found, why)
    word = _SYSTEMD_WORD[kind]
    file = f"/etc/systemd/system.conf.d/kwhere-{kind}.conf"
    remedy = Remedy(
        f"sudo mkdir -p /etc/systemd/system.conf.d && printf '[Manager]\\nDefault{word}Accounting=yes\\n'"
        f" | sudo tee {file} && sudo systemctl daemon-reexec",
        f"sudo rm {file} && sudo systemctl daemon-reexec",
        "Every block request costs the kernel a little more." if kind == "io" else None,
        "for good, for services started from then on",
    )
    return missing(name, found, why, remedy)


def _has_controller(kind: str, fs: HostFS, layout: CgroupLayout) -> bool:
    return _V1_NAME[kind] in layout.controllers or kind in _unified_controllers(fs, layout)


def _unified_controllers(fs: HostFS, layout: CgroupLayout) -> Sequence[str]:
    if layout.unified is None:
        return ()
    with suppress(Unavailable, SourceError):
        return sorted(fs.read_text(layout.unified.file("/", "cgroup.controllers")).split())
    return ()


def _accounts(kind: str, path: str, fs: HostFS, layout: CgroupLayout) -> bool:
    trees = [layout.controllers.get(_V1_NAME[kind]), layout.unified]
    return any(fs.exists(tree.file(path, file)) for tree in trees if tree is not None for file in _ACCOUNTS[kind])


def _daemons(fs: HostFS) -> Iterator[str]:
    for pid in list_pids(fs):
        with suppress(Unavailable, SourceError):
            manager = _DAEMONS.get(read_stat(fs, pid).command)
            if manager is not None:
                yield manager


def _proc_mount_options(fs: HostFS) -> str:
    with suppress(Unavailable, SourceError):
        for line in fs.read_text("proc/mounts").splitlines():
            fields = line.split(" ")
            if len(fields) > 3 and fields[2] == "proc" and fields[1] in ("/proc", str(fs.path("proc"))):
                return fields[3]
    return ""


def _count_directories(place: Place) -> int:
    try:
        layout = detect_layout(place.fs, place.cgroup_version)
    except Unavailable:
        return 0
    found = 0
    for found, _ in enumerate(descend(place.fs, layout.cpu[0], "/"), 1):
        if found >= _MOST_DIRECTORIES:
            break
    return found


CHECKS = (
    Examination("cgroups", "Units", check_cgroups),
    Examination("cgroup_memory", "Units", check_memory),
    Examination("cgroup_io", "Units", check_io),
    Examination("units", "Units", check_managers),
    Examination("process_groups", "Units", check_processes),
    Examination("proc", "Units", check_proc),
    Examination("inotify", "Units", check_inotify),
)
