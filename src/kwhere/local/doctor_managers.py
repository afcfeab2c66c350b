"""Checks of what managers tell of their units beside cgroups: names and owners, and SLURM's way of tracking."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kwhere.discovery import libvirt, oar, slurm
from kwhere.discovery.settings import UnitsSettings
from kwhere.local.doctor import Check, Examination, Remedy, missing, ok, warning
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import read_everything

SLURM_FILES = (Path("/etc/slurm/slurm.conf"), Path("/etc/slurm-llnl/slurm.conf"), Path("/run/slurm/conf/slurm.conf"))
_TRACKING = re.compile(r"^\s*ProctrackType\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_BY_CGROUP = "proctrack/cgroup"
_LONGEST_FILE = 1 << 20


def check_names(place: Place) -> Sequence[Check]:
    """Say of each manager with units here whether names and owners can be read."""
    managers = {unit.key.manager for unit in place.units()}
    sources = {name: found for name, found in _name_sources(place.settings).items() if name in managers}
    return [_check_source(name, directories, place) for name, directories in sources.items()]


def check_slurm(place: Place, files: Sequence[Path] = SLURM_FILES) -> Sequence[Check]:
    """Say whether SLURM puts jobs into cgroups; nothing on a node without SLURM's configuration."""
    return list(_check_tracking(files, any(unit.key.manager == slurm.MANAGER for unit in place.units())))


def _name_sources(settings: UnitsSettings) -> Mapping[str, Sequence[Path]]:
    return {
        "docker": [root / "containers" for root in settings.docker_dirs],
        "podman": list(settings.podman_dirs),
        "kubernetes": [settings.pod_log_dir],
        libvirt.MANAGER: list(settings.libvirt_xml_dirs),
        oar.MANAGER: list(settings.oar_env_dirs),
    }


def _check_source(manager: str, directories: Sequence[Path], place: Place) -> Check:
    name = f"names_{manager}"
    readable = [path for path in directories if os.access(path, os.R_OK | os.X_OK)]
    if readable:
        return ok(name, f"read from {readable[0]}")
    sockets = [path for path in place.settings.container_sockets if manager in path.name]
    answering = [path for path in sockets if os.access(path, os.R_OK | os.W_OK)]
    if answering:
        return ok(name, f"asked at {answering[0]}")
    places = ", ".join(str(path) for path in directories)
    why = "Units keep their id and lack name and project, which a server may know better."
    if place.is_root:
        return missing(name, f"{places}: not here", why)
    return missing(name, f"{places}: not here or root's alone", why, read_everything(place.user))


def _check_tracking(files: Sequence[Path], has_jobs: bool) -> Iterator[Check]:
    for file in files:
        text = _text(file)
        if text is None:
            continue
        tracking = _TRACKING.search(text)
        kind = tracking[1] if tracking else _BY_CGROUP  # SLURM's own default since 20.11
        if kind == _BY_CGROUP or has_jobs:
            yield ok("slurm_tracking", kind)
        else:
            yield _tracked_otherwise(file, kind)
        return


def _tracked_otherwise(file: Path, kind: str) -> Check:
    why = "Jobs have no cgroup of their own on this node: their work is `system`, or process groups by command."
    quoted = shlex.quote(str(file))

    def change(before: str, after: str) -> str:
        return f"sudo sed -i 's|={before}|={after}|' {quoted} && sudo systemctl restart slurmd"

    remedy = Remedy(
        change(kind, _BY_CGROUP),
        change(_BY_CGROUP, kind),
        "slurmd loses track of jobs that run meanwhile: drain the node first, and change all nodes alike.",
    )
    return warning("slurm_tracking", kind, why, remedy)


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return stream.read(_LONGEST_FILE).decode(errors="replace")
    except OSError:
        return None


CHECKS = (
    Examination("names", "Units", check_names),
    Examination("slurm_tracking", "Units", check_slurm),
)
"""Of the running machine alone."""
