"""What kind of file system a directory lies on: the journal needs one whose locks and syncs are this machine's own."""

import ctypes
import os
from enum import Enum, auto
from pathlib import Path

from kwhere.core.errors import JournalError

_NETWORK_MAGICS = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x01021997: "9p",
    0x00C36400: "ceph",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x5346414F: "afs",
    0x6B414653: "kafs",
    0x73757245: "coda",
    0xAAD7AAEA: "panfs",
    0x20030528: "pvfs2",
    0x01161970: "gfs2",
    0x7461636F: "ocfs2",
}
"""linux/magic.h, and the modules that are not in the kernel tree."""
_MEMORY_MAGICS = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}
_FUSE_MAGIC = 0x65735546
_NETWORK_FUSE = (
    "sshfs",
    "glusterfs",
    "s3fs",
    "ceph",
    "cvmfs",
    "rclone",
    "juicefs",
    "gcsfuse",
    "moosefs",
    "mfs",
    "dav",
    "weed",
)


class Durability(Enum):
    """What a file system promises of a synced file."""

    DISK = auto()
    MEMORY = auto()
    """Gone with the next boot."""
    NETWORK = auto()
    """Another machine's locks and syncs."""


def file_system_of(directory: Path) -> tuple[Durability, str]:
    """Return what the file system of `directory` promises, and its name. Raises JournalError."""
    magic = _magic(directory)
    if magic in _NETWORK_MAGICS:
        return Durability.NETWORK, _NETWORK_MAGICS[magic]
    if magic in _MEMORY_MAGICS:
        return Durability.MEMORY, _MEMORY_MAGICS[magic]
    if magic == _FUSE_MAGIC:
        return classify_fuse(_mount_type(directory))
    return Durability.DISK, f"{magic:#x}"


def classify_fuse(mount_type: str) -> tuple[Durability, str]:
    """Return what a FUSE mount of this type (`fuse.sshfs`, `fuseblk`) promises, judged by its name."""
    remote = any(name in mount_type for name in _NETWORK_FUSE)
    return (Durability.NETWORK if remote else Durability.DISK), mount_type


def mount_type_in(mountinfo: str, directory: str) -> str:
    """Return the type of the mount that holds `directory` by the text of /proc/self/mountinfo; "" if none does."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5 or not after:
            continue
        point = _unescape(fields[4])
        # >=: of two mounts on one point the later hides the earlier
        if _lies_in(directory, point) and len(point) >= best:
            best, found = len(point), after.split()[0]
    return found


def _magic(directory: Path) -> int:
    buffer = (ctypes.c_long * 64)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(directory), buffer) != 0:
        code = ctypes.get_errno()
        raise JournalError("path", f"{directory}: cannot be looked at ({os.strerror(code)})")
    return int(buffer[0]) & 0xFFFFFFFF


def _mount_type(directory: Path) -> str:
    mountinfo = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    return mount_type_in(mountinfo, str(directory.resolve())) or "fuse"


def _lies_in(directory: str, point: str) -> bool:
    return point == "/" or directory == point or directory.startswith(point + "/")


def _unescape(field: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        field = field.replace(code, character)
    return field
