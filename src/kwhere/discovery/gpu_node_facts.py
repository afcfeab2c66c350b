"""How this node's kernel names its GPUs: cards, partitions, capability files, major numbers."""

import re

from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery.gpu_names import NodeFacts
from kwhere.kernel.hostfs import HostFS

_DRM = "sys/class/drm"
_KFD = "sys/class/kfd/kfd/topology/nodes"
_CAPABILITIES = "proc/driver/nvidia-caps/mig-minors"
_CARD = re.compile(r"card[0-9]{1,4}|renderD[0-9]{1,4}")
_CAPABILITY = re.compile(r"gpu([0-9]{1,4})/gi([0-9]{1,4})(?:/ci([0-9]{1,4}))?/access ([0-9]{1,6})")
_PARTITION = re.compile(r"amdgpu_xcp[_.]([0-9]{1,4})")
_MAJOR = re.compile(r"\s*([0-9]{1,6}) (\S+)")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PID_NAMESPACE = "pid:[4026531836]"
"""The initial one; its inode number is fixed (include/linux/proc_ns.h, PROC_PID_INIT_INO)."""


def read_node_facts(fs: HostFS) -> NodeFacts:
    """Return the facts; what is not there is left out."""
    behind = _behind_cards(fs)
    return NodeFacts(
        cards={card: name for card, name in behind.items() if _PCI.fullmatch(name)},
        partitions=_partitions(fs, behind),
        capabilities=parse_capabilities(_text(fs, _CAPABILITIES)),
        majors=parse_majors(_text(fs, "proc/devices")),
    )


def sees_host_processes(fs: HostFS) -> bool:
    """Return whether `/proc` shows the host's processes under the host's numbers, as a GPU library gives them.

    Where that cannot be looked up it is taken to be so.
    """
    try:
        return fs.read_link("proc/1/ns/pid") == _PID_NAMESPACE
    except (Unavailable, SourceError):
        pass
    try:
        return fs.read_link("proc/self/ns/pid") == _PID_NAMESPACE
    except (Unavailable, SourceError):
        return True


def parse_capabilities(text: str) -> dict[int, tuple[int, int, int | None]]:
    """Return device minor, GPU instance and compute instance of each line `gpu0/gi1/ci0/access 13`."""
    found = {}
    for line in text.splitlines():
        told = _CAPABILITY.fullmatch(line.strip())
        if told is not None:
            found[int(told[4])] = (int(told[1]), int(told[2]), int(told[3]) if told[3] else None)
    return found


def parse_majors(text: str) -> dict[str, int]:
    """Return major numbers of character devices out of `/proc/devices`; a name's last one counts."""
    found = {}
    for line in text.partition("Block devices:")[0].splitlines():
        told = _MAJOR.fullmatch(line)
        if told is not None:
            found[{"nvidia-frontend": "nvidia"}.get(told[2], told[2])] = int(told[1])
    return found


def _behind_cards(fs: HostFS) -> dict[str, str]:
    """Return the name of the device behind each card and render node: a PCI address, or `amdgpu_xcp_3`."""
    found = {}
    for card in _names(fs, _DRM):
        if _CARD.fullmatch(card) is not None:
            try:
                found[card] = fs.read_link(f"{_DRM}/{card}/device").rpartition("/")[2]
            except (Unavailable, SourceError):
                continue
    return found


def _partitions(fs: HostFS, behind: dict[str, str]) -> dict[int, tuple[str, int]]:
    """Return PCI address and partition of each `amdgpu_xcp_N`, by the render node that both lists name."""
    xcp = {
        int(card[7:]): int(told[1])
        for card, name in behind.items()
        if card.startswith("renderD") and (told := _PARTITION.fullmatch(name)) is not None
    }
    found = {}
    for node in _names(fs, _KFD) if xcp else ():
        words = (line.split() for line in _text(fs, f"{_KFD}/{node}/properties").splitlines())
        told_of = {
            pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit() and len(pair[1]) < 20
        }
        number = xcp.get(told_of.get("drm_render_minor", -1))
        if number is None:
            continue
        location, domain = told_of.get("location_id", 0), told_of.get("domain", 0)
        # kfd: bus in bits 8-15, device and function in 0-7, the partition in 28-31
        pci = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
        found[number] = (pci, location >> 28 & 0xF)
    return found


def _names(fs: HostFS, path: str) -> list[str]:
    try:
        return fs.list_dir(path)
    except (Unavailable, SourceError):
        return []


def _text(fs: HostFS, path: str) -> str:
    try:
        return fs.read_text(path)
    except (Unavailable, SourceError):
        return ""
