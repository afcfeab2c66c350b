"""A whole OAR 2.5 on this host: PostgreSQL, Almighty, an sshd for its node, REST by its CGI; loopback only.

`/etc/oar/oar.conf` is put back at the end. OAR removes the files of a user in /tmp after the user's last job: its users
are its own. Ports 6666 and 6667 are OAR's: one runs at a time.
"""

import contextlib
import functools
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONFIG = Path("/etc/oar/oar.conf")
SSHD_CONFIG = Path("/etc/oar/sshd_config")
CGI = Path("/usr/lib/cgi-bin/oarapi/oarapi.cgi")
USERS = ("kwoaralice", "kwoarbob")
_ADMIN_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"


def is_installed() -> bool:
    """Return whether OAR, its REST interface and PostgreSQL are here, and ours to start."""
    programs = all(shutil.which(name, path=_ADMIN_PATH) for name in ("Almighty", "oarstat", "oar-database", "sshd"))
    return programs and CGI.exists() and bool(_postgresql()) and os.geteuid() == 0


def _postgresql() -> str:
    return next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), "")


class OarServer:
    """One OAR with a node `localhost` of two cores, each with a GPU, and a dead node."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._log = (root / "log").open("ab")
        self._original = CONFIG.read_bytes()
        self._almighty: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])

    def start(self) -> None:
        if _is_open(6666):
            raise RuntimeError("port 6666: expected to be free, found another OAR")
        data = self._root / "data"
        options = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        self._as_user("postgres", f"{_postgresql()}/initdb", "-D", str(data), *options)
        self.start_database()
        self._configure()
        self._run("oar-database", "--create", "--db-admin-user=postgres", "--db-admin-pass=x", "-y")
        self._start_sshd()
        self._almighty = subprocess.Popen(
            ["Almighty"], env=self._environment(), stdout=self._log, stderr=self._log, start_new_session=True
        )
        wait_for(lambda: _is_open(6666), 20)
        for name in ("cpu", "core", "gpu", "gpudevice"):
            self._run("oarproperty", "-a", name)
        for name in ("host", "gpu_model"):
            self._run("oarproperty", "-c", "-a", name)
        for number in range(2):
            facts = {"host": "localhost", "cpu": 1, "core": number + 1, "cpuset": number, "gpu": number + 1}
            facts |= {"gpudevice": number, "gpu_model": "A100"}
            words = [word for name, value in facts.items() for word in ("-p", f"{name}={value}")]
            self._run("oarnodesetting", "-a", "-h", "localhost", *words)
        self._run("oarnodesetting", "-a", "-h", "127.0.0.2", "-s", "Dead", "-p", "core=3")

    def start_database(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._root} -c fsync=off"
        self._control("-w", "-t", "30", "-l", str(self._root / "pg.log"), "-o", options, "start")

    def stop_database(self) -> None:
        self._control("-m", "immediate", "stop")

    def submit(self, user: str, *words: str) -> str:
        """Return the id of a job."""
        said = self._as_user(user, "oarsub", *words)
        return next(line for line in said.splitlines() if line.startswith("OAR_JOB_ID=")).partition("=")[2]

    def stop(self) -> None:
        if self._almighty is not None:
            for pid in [self._almighty.pid, *_descendants(self._almighty.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # it sleeps for half a minute where its database went away
            self._almighty.wait()
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int((self._root / "sshd.pid").read_text()), signal.SIGTERM)
        with contextlib.suppress(RuntimeError):
            self.stop_database()
        _rewrite(self._original)
        for directory in glob.glob("/sys/fs/cgroup/*/oar"):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        self._log.close()

    def _configure(self) -> None:
        told = {"DB_PORT": str(self._port), "DB_BASE_PASSWD": "oarpw", "DB_BASE_PASSWD_RO": "oarropw"}
        lines = self._original.decode().splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in told]
        _rewrite("\n".join([*kept, *(f'{name}="{value}"' for name, value in told.items()), ""]).encode())

    def _start_sshd(self) -> None:
        lines = SSHD_CONFIG.read_text().splitlines()
        kept = [line for line in lines if "UsePrivilegeSeparation" not in line and "KeepAlive yes" not in line]
        config = self._root / "sshd_config"
        config.write_text("\n".join([*kept, "TCPKeepAlive yes", "ListenAddress 127.0.0.1", "UsePAM no", ""]))
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd", path=_ADMIN_PATH) or "sshd"
        self._run(sshd, "-f", str(config), "-o", f"PidFile={self._root}/sshd.pid", "-E", f"{self._root}/sshd.log")

    def _control(self, *words: str) -> None:
        self._as_user("postgres", f"{_postgresql()}/pg_ctl", "-D", str(self._root / "data"), *words)

    def _environment(self) -> dict[str, str]:
        return {"PATH": _ADMIN_PATH, "LC_ALL": "C.UTF-8", "HOME": "/root"}

    def _as_user(self, user: str, *words: str) -> str:
        return self._run("runuser", "-u", user, "--", *words)

    def _run(self, *words: str) -> str:
        # Output to a file: what a command starts for good would keep a pipe open for ever.
        with tempfile.TemporaryFile() as output:
            finished = subprocess.run(
                words,
                env=self._environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
            )
            output.seek(0)
            said = output.read().decode(errors="replace")
        if finished.returncode:
            raise RuntimeError(f"{' '.join(words)}: {said}")
        return said


def _rewrite(text: bytes) -> None:
    """Write the configuration with the owner and mode that it has."""
    CONFIG.write_bytes(text)
    CONFIG.chmod(0o600)
    shutil.chown(CONFIG, "oar")


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(holds: Callable[[], bool], seconds: float) -> None:
    """Return as soon as it holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.2)


@contextlib.contextmanager
def running() -> Iterator[OarServer]:
    """Yield a running OAR."""
    for user in USERS:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(user)
            continue
        subprocess.run(["useradd", "-m", "-s", "/bin/bash", user], check=True, env={"PATH": _ADMIN_PATH})
    root = Path(tempfile.mkdtemp(prefix="kwhere-oar-"))
    root.chmod(0o755)
    shutil.chown(root, "postgres", "postgres")
    server = OarServer(root)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def rest() -> Iterator[str]:
    """Yield the address of OAR's own REST interface, its CGI behind a small server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Cgi)
    thread = threading.Thread(target=functools.partial(server.serve_forever, 0.05))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/oarapi"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Cgi(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        variables: Mapping[str, str] = {
            "PATH": _ADMIN_PATH,
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "/oarapi",
            "PATH_INFO": path.removeprefix("/oarapi"),
            "QUERY_STRING": query,
            "REQUEST_URI": self.path,
            "SERVER_NAME": "localhost",
            "HTTP_HOST": "localhost",
        }
        said = subprocess.run([CGI], env=variables, capture_output=True, check=False).stdout
        head, _, body = said.replace(b"\r\n", b"\n").partition(b"\n\n")
        status = next((line.split()[1] for line in head.splitlines() if line.startswith(b"Status:")), b"500")
        self.send_response_only(int(status))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
