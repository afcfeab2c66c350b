"""What kind of machine this is: virtual machines and containers rarely see an energy meter, and cannot help it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

_HYPERVISORS = {
    "qemu": "QEMU",
    "kvm": "KVM",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "xen": "Xen",
    "bochs": "QEMU",
    "parallels": "Parallels",
    "amazon ec2": "Amazon EC2",
    "google compute engine": "Google Compute Engine",
    "virtual machine": "Hyper-V",
    "openstack": "OpenStack",
    "hvm domu": "Xen",
}
"""Words in the DMI vendor or product name; bare-metal instances of the clouds have no `hypervisor` CPU flag."""
_HEAD_BYTES = 16384


def hypervisor_of(fs: HostFS) -> str | None:
    """Return the hypervisor that this machine is a guest of, "hypervisor unknown" where it hides; None on metal."""
    board = " ".join(_word(fs, f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")).lower()
    named = next((name for word, name in _HYPERVISORS.items() if word in board), None)
    if named in ("Amazon EC2", "Google Compute Engine") and not _has_guest_flag(fs):
        return None
    if named is not None:
        return named
    kind = _word(fs, "sys/hypervisor/type")
    if kind:
        return kind
    return "hypervisor unknown" if _has_guest_flag(fs) else None


def has_sysfs(fs: HostFS) -> bool:
    """Return whether there is a sysfs at all: some containers are given none."""
    return fs.exists("sys")


def container_of(root: Path, environment: Mapping[str, str]) -> str | None:
    """Return the container runtime that we run in, None outside; judged by the marks that runtimes leave."""
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    return environment.get("container") or None


def _has_guest_flag(fs: HostFS) -> bool:
    with suppress(Unavailable, SourceError):
        for line in fs.read_head("proc/cpuinfo", _HEAD_BYTES).decode(errors="replace").splitlines():
            if line.startswith("flags"):
                return "hypervisor" in line.partition(":")[2].split()
    return False


def _word(fs: HostFS, area_path: str) -> str:
    with suppress(Unavailable, SourceError):
        return fs.read_word(area_path)
    return ""
