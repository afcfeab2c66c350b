from pathlib import Path

import pytest
from tests.unit.ledger.journals import append, cause_of, open_journal

from kwhere.core.errors import JournalError
from kwhere.ledger import file_system, journal
from kwhere.ledger.file_system import Durability, classify_fuse, file_system_of, mount_type_in

MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw - nfs4 server:/home rw
31 22 0:31 / /home/my\\040state rw shared:9 master:1 - fuse.sshfs host: rw
32 22 0:32 / /home/my\\040state rw - fuse.glusterfs host: rw
33 22 0:33 / /homework rw - xfs /dev/vdb rw
garbage
34 22 0:34 / /x rw -
"""


@pytest.mark.parametrize(
    ("directory", "mount_type"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/alice", "nfs4"),
        ("/homework/x", "xfs"),
        ("/home/my state/deep", "fuse.glusterfs"),
    ],
)
def test_mount_that_holds_a_directory_is_the_deepest_and_latest(directory: str, mount_type: str) -> None:
    assert mount_type_in(MOUNTINFO, directory) == mount_type


@pytest.mark.parametrize(
    ("mount_type", "durability"),
    [
        ("fuse.sshfs", Durability.NETWORK),
        ("fuse.glusterfs", Durability.NETWORK),
        ("fuse.ceph-fuse", Durability.NETWORK),
        ("fuseblk", Durability.DISK),
        ("virtiofs", Durability.DISK),
        ("fuse.fuse-overlayfs", Durability.DISK),
    ],
)
def test_fuse_mount_is_judged_by_its_name(mount_type: str, durability: Durability) -> None:
    assert classify_fuse(mount_type) == (durability, mount_type)


def test_memory_file_system_is_known() -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")

    assert file_system_of(Path("/dev/shm")) == (Durability.MEMORY, "tmpfs")


@pytest.mark.parametrize(
    ("magic", "expected"),
    [
        (0x6969, (Durability.NETWORK, "nfs")),
        (0xFF534D42, (Durability.NETWORK, "cifs")),
        (0x0BD00BD0, (Durability.NETWORK, "lustre")),
        (0x858458F6, (Durability.MEMORY, "ramfs")),
        (0xEF53, (Durability.DISK, "0xef53")),
    ],
)
def test_file_system_is_known_by_its_magic(
    monkeypatch: pytest.MonkeyPatch, magic: int, expected: tuple[Durability, str]
) -> None:
    monkeypatch.setattr(file_system, "_magic", lambda directory: magic)

    assert file_system_of(Path("/")) == expected


def test_directory_that_is_not_there_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        file_system_of(tmp_path / "absent")


def test_state_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "file_system_of", lambda directory: (Durability.NETWORK, "nfs"))

    with pytest.raises(JournalError, match="lies on nfs; the journal needs a directory on a disk") as refused:
        open_journal(tmp_path)

    assert cause_of(refused.value) == "network"


def test_state_in_memory_is_used_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journal, "file_system_of", lambda directory: (Durability.MEMORY, "tmpfs"))

    append(open_journal(tmp_path))

    assert "not one of the machine" in capsys.readouterr().out
