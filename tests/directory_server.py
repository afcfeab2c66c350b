"""A real slapd on loopback, filled with people, started and ended by a test."""

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
BASE = "dc=example,dc=org"
PEOPLE = f"ou=people,{BASE}"
READER = f"cn=reader,{BASE}"
PASSWORD = "l'd@p p\u00e4ss"
_CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
disallow bind_anon
sizelimit {limit}
{tls}
database mdb
maxsize 16777216
suffix "{base}"
rootdn "cn=root,{base}"
directory {folder}/data
access to * by dn.exact="{reader}" read by anonymous auth
"""


def is_installed() -> bool:
    """Return whether this machine has a slapd and its tools."""
    return all(shutil.which(name, path=_PATH) for name in ("slapd", "slapadd"))


@dataclass
class Directory:
    """A running directory server."""

    port: int
    tls_port: int

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://localhost:{self.tls_port}"


def person(login: str, *lines: str, kind: str = "inetOrgPerson") -> str:
    """Return an entry in LDIF."""
    more = "".join(f"{line}\n" for line in lines)
    return f"dn: uid={login},{PEOPLE}\nobjectClass: {kind}\nuid: {login}\nsn: x\n{more}\n"


@contextmanager
def running(
    folder: Path, entries: Sequence[str], *, certificate: Path | None = None, key: Path | None = None, limit: int = 100
) -> Iterator[Directory]:
    """Serve `entries` until the block ends; an anonymous client may ask nothing."""
    (folder / "data").mkdir(parents=True)
    tls = f"TLSCertificateFile {certificate}\nTLSCertificateKeyFile {key}" if certificate else ""
    config = folder / "slapd.conf"
    config.write_text(_CONFIG.format(folder=folder, base=BASE, reader=READER, tls=tls, limit=limit))
    ldif = folder / "people.ldif"
    ldif.write_text(_ROOT + "".join(entries), encoding="utf-8")
    slapadd = shutil.which("slapadd", path=_PATH)
    slapd = shutil.which("slapd", path=_PATH)
    assert slapadd is not None
    assert slapd is not None
    subprocess.run([slapadd, "-f", str(config), "-l", str(ldif)], check=True, capture_output=True)
    server = Directory(_free_port(), _free_port())
    addresses = server.url + (f" ldaps://127.0.0.1:{server.tls_port}" if certificate else "")
    with (folder / "slapd.log").open("wb") as log:
        process = subprocess.Popen([slapd, "-f", str(config), "-h", addresses, "-d", "0"], stdout=log, stderr=log)
    try:
        _wait(server.port, process, folder / "slapd.log")
        yield server
    finally:
        process.terminate()
        process.wait(10)


_ROOT = f"""dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword:: {base64.b64encode(PASSWORD.encode()).decode()}

"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("slapd does not answer")
