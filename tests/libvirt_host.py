"""A real libvirt: its test driver, which needs no daemon, and a libvirtd of our own with QEMU in emulation."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
_HOMES = ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_SCHEMA = "http://libvirt.org/schemas/domain/test/1.0"
NOVA = """
<metadata>
  <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
    <nova:name>demo</nova:name>
    <nova:flavor name="m1.tiny"/>
    <nova:owner><nova:user uuid="u-1">alice</nova:user><nova:project uuid="p-1">cfd</nova:project></nova:owner>
  </nova:instance>
</metadata>
"""


def is_installed() -> bool:
    """Return whether virsh is there; its library brings the test driver."""
    return shutil.which("virsh", path=_PATH) is not None


def runs_machines() -> bool:
    """Return whether this machine can run libvirtd and QEMU."""
    return os.geteuid() == 0 and all(
        shutil.which(name, path=_PATH) for name in ("virsh", "libvirtd", "qemu-system-x86_64")
    )


def uuid_of(number: int) -> str:
    return f"11111111-2222-3333-4444-{number:012d}"


def domain(number: int, name: str, inner: str = "", *, kind: str = "test", state: str = "") -> str:
    """Return a domain of 2 CPUs and 64 MiB; for the test driver with the state it begins in."""
    word = f'<test:runstate xmlns:test="{_SCHEMA}">{{}}</test:runstate>'
    run = word.format(state) if state else ""
    return f"""<domain type='{kind}'>
  <name>{name}</name><uuid>{uuid_of(number)}</uuid>{inner}{run}
  <memory unit='MiB'>64</memory><vcpu>2</vcpu><os><type>hvm</type></os>
</domain>"""


def play_host(file: Path, domains: Sequence[str]) -> str:
    """Return the connection of a host that the test driver plays: 16 CPUs, 3 GiB and these machines."""
    cpu = "<nodes>2</nodes><sockets>2</sockets><cores>2</cores><threads>2</threads><active>16</active>"
    file.write_text(f"<node>{''.join(domains)}<cpu>{cpu}</cpu><memory>3145728</memory></node>")
    return f"test://{file}"


@contextmanager
def libvirtd() -> Iterator[str]:
    """Run a libvirtd of our own as nobody, whose machines are emulated; yields its connection."""
    # A socket's path is short, and nobody must reach it.
    with tempfile.TemporaryDirectory(prefix="kwhere-virt-") as name:
        runtime = Path(name)
        shutil.chown(runtime, "nobody", "nogroup")
        yield from _running(runtime)


def _running(runtime: Path) -> Iterator[str]:
    binary, as_nobody = shutil.which("libvirtd", path=_PATH), shutil.which("runuser", path=_PATH)
    assert binary is not None
    assert as_nobody is not None
    homes = {name: str(runtime) for name in _HOMES}
    socket = runtime / "libvirt" / "libvirt-sock"
    with (runtime / "libvirtd.out").open("wb") as log:
        daemon = subprocess.Popen(
            [as_nobody, "-u", "nobody", "--", binary], stdout=log, stderr=log, env={"PATH": _PATH, **homes}
        )
    uri = f"qemu:///session?socket={socket}"
    try:
        deadline = time.monotonic() + 30
        while not socket.exists():
            assert daemon.poll() is None, (runtime / "libvirtd.out").read_text()
            assert time.monotonic() < deadline, "libvirtd does not answer"
            time.sleep(0.05)
        yield uri
    finally:
        for name in virsh(uri, "list --name", check=False).split():
            virsh(uri, f"destroy {name}", check=False)
        daemon.terminate()
        daemon.wait(30)


def virsh(uri: str, command: str, *, check: bool = True) -> str:
    done = subprocess.run(["virsh", "-q", "-c", uri, command], check=False, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout
