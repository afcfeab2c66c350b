"""A whole SLURM on this host: munge, MariaDB, slurmdbd, slurmctld, two slurmd, slurmrestd; loopback only.

Folders, ports and the cluster's name are this instance's own; munge's socket and SLURM's cgroups are the host's, so one
runs at a time.
"""

import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

CLUSTER = "testslurm"
NODES = ("n1", "n2")
USERS = {"kwalice": "proj1", "kwbob": "proj2"}
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "munged", "mariadbd", "sacct", "sbatch", "scontrol")
_ADMIN_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
_SLURM_CONF = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={root}/etc/jwt.key
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={ctld}
SlurmdPort={ctld}
StateSaveLocation={root}/state
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd.%n.pid
SlurmdSpoolDir={root}/spool/%n
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStorageUser=slurm
AccountingStorageTRES=gres/gpu,gres/gpu:a100,energy
AccountingStorageEnforce=associations
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=2
AcctGatherEnergyType=acct_gather_energy/none
SlurmdParameters=config_overrides
KillWait=5
MinJobAge=300
FirstJobId={first_job}
Waittime=0
DefMemPerCPU=100
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{slurmd}-{last}] CPUs=2 CoresPerSocket=2 \\
RealMemory=4000 Gres=gpu:a100:2
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""
_CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=yes
ConstrainRAMSpace=yes
"""
_DBD_CONF = """\
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={root}/etc/jwt.key
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=slurm
LogFile={root}/log/slurmdbd.log
PidFile={root}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StoragePass=slurmpw
StorageLoc=slurm_acct_db
CommitDelay=1
"""


def is_installed() -> bool:
    """Return whether all of it is on this machine, and this is root on a host with cgroup v1."""
    is_v1 = os.access("/sys/fs/cgroup/cpuacct", os.W_OK)
    return os.geteuid() == 0 and is_v1 and all(shutil.which(name, path=_ADMIN_PATH) for name in PROGRAMS)


def _free_ports(count: int) -> int:
    """Return the first of so many ports in a row that are free now."""
    for first in range(17_800 + secrets.randbelow(2000), 32_000, count):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(contextlib.closing(socket.socket())).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


class SlurmCluster:
    """One instance; `start` brings all of it up, `stop` takes all of it down."""

    def __init__(self, root: Path, more_conf: str = "", more_dbd_conf: str = "") -> None:
        """`more_conf` are further lines of slurm.conf, `{root}` in them is this instance's folder; then slurmdbd's."""
        self.root = root
        self._more_conf, self._more_dbd_conf = more_conf, more_dbd_conf
        self.host = socket.gethostname().split(".")[0]
        first = _free_ports(7)
        self._ports = {"ctld": first, "dbd": first + 1, "sql": first + 2, "rest": first + 3, "slurmd": first + 4}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.rest_url = f"http://127.0.0.1:{first + 3}"

    @property
    def environment(self) -> dict[str, str]:
        """Return what SLURM's programs need to find this instance."""
        return {"SLURM_CONF": str(self.root / "etc/slurm.conf"), "PATH": _ADMIN_PATH}

    def start(self) -> None:
        """Bring it up: about ten seconds."""
        self._write()
        self._start_munge()
        self._start_database()
        self.start_slurmdbd()
        self._add_accounts()
        self.start_slurmctld()
        for node in NODES:
            self._spawn(f"slurmd.{node}", ["slurmd", "-D", "-N", node])
        self._wait("idle nodes", lambda: len(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()) >= 2)

    def stop(self) -> None:
        """Take it down and leave nothing behind."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("scancel", "--partition=main", check=False)
            self._wait("an empty queue", lambda: not self.run("squeue", "-h", check=False).split(), 15)
        for name in ("slurmrestd", "slurmd.n1", "slurmd.n2", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            self.kill(name)
        for root in Path("/sys/fs/cgroup").glob("*/slurm_n[12]"):
            self._clear(root)

    def kill(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End one daemon, politely unless told otherwise."""
        child = self._children.pop(name, None)
        if child is None:
            return
        child.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
        child.kill()
        child.wait()

    def start_slurmdbd(self) -> None:
        """Start slurmdbd, the first time or again."""
        self._spawn("slurmdbd", ["slurmdbd", "-D"])
        self._wait_port("dbd")

    def start_slurmctld(self) -> None:
        """Start slurmctld, the first time or again."""
        self._spawn("slurmctld", ["slurmctld", "-D"])
        self._wait("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False))

    def start_slurmrestd(self) -> None:
        """Start slurmrestd, which refuses to be root."""
        self._spawn(
            "slurmrestd", ["slurmrestd", "-a", "rest_auth/jwt", self.rest_url.removeprefix("http://")], "nobody"
        )
        self._wait_port("rest")

    def run(self, *argv: str, user: str | None = None, check: bool = True) -> str:
        """Return what one of SLURM's commands says."""
        words = ["runuser", "-u", user, "--", *argv] if user else list(argv)
        done = subprocess.run(
            words,
            env={**os.environ, **self.environment},
            cwd="/",
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=60,
        )
        assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def sbatch(self, user: str, *options: str, script: str) -> str:
        """Submit a script; return the job id."""
        out = self.root / "out"
        path = out / f"{secrets.token_hex(4)}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        said = self.run("sbatch", "--parsable", f"--output={out}/%j.out", *options, str(path), user=user)
        return said.strip().split(";")[0]

    def wait_job(self, job: str, states: Sequence[str], seconds: float = 120.0) -> None:
        """Wait until sacct says one of these states."""
        self._wait(
            f"job {job} in {states}",
            lambda: any(
                s in self.run("sacct", "-X", "-n", "-P", "-o", "State", "-j", job, check=False) for s in states
            ),
            seconds,
        )

    def wait_saved(self, job: str) -> None:
        """Wait until slurmctld has written what it knows of a job: killed before, it would begin it a second time."""
        before_ns = time.time_ns()
        self.run("scontrol", "update", f"jobid={job}", "comment=to be saved")
        saved = self.root / "state" / "job_state"
        self._wait("slurmctld's state", lambda: saved.exists() and saved.stat().st_mtime_ns > before_ns, 60)

    def _write(self) -> None:
        for name in ("etc", "run", "state", "log", "spool", "out", *(f"spool/{node}" for node in NODES)):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        words = {**self._ports, "root": self.root, "host": self.host, "cluster": CLUSTER}
        words["last"] = self._ports["slurmd"] + 1
        # Ids that no other test's jobs on this host have.
        words["first_job"] = 1_000_000 + secrets.randbelow(10_000) * 1000
        etc = self.root / "etc"
        (etc / "slurm.conf").write_text((_SLURM_CONF + self._more_conf).format(**words), encoding="utf-8")
        (etc / "cgroup.conf").write_text(_CGROUP_CONF, encoding="utf-8")
        devices = self.root / "dev"
        devices.mkdir(exist_ok=True)
        for index in range(2):
            (devices / f"gpu{index}").touch()
        (etc / "gres.conf").write_text(
            f"NodeName=n[1-2] Name=gpu Type=a100 File={devices}/gpu[0-1]\n", encoding="utf-8"
        )
        (etc / "slurmdbd.conf").write_text((_DBD_CONF + self._more_dbd_conf).format(**words), encoding="utf-8")
        (etc / "jwt.key").write_bytes(secrets.token_bytes(32))
        for name in ("jwt.key", "slurmdbd.conf"):
            (etc / name).chmod(0o600)
            shutil.chown(etc / name, "slurm", "slurm")
        for name in ("run", "state", "log"):
            shutil.chown(self.root / name, "slurm", "slurm")
        (self.root / "out").chmod(0o777)
        for parent in (self.root, *self.root.parents):
            if parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o055)
        for user in USERS:
            try:
                pwd.getpwnam(user)
            except KeyError:
                subprocess.run(["useradd", "-M", "-s", "/bin/bash", user], check=True)

    def _start_munge(self) -> None:
        if (
            Path("/run/munge/munge.socket.2").exists()
            and b"Success" in subprocess.run("munge -n | unmunge", shell=True, capture_output=True, check=False).stdout
        ):
            return
        run = Path("/run/munge")
        run.mkdir(mode=0o755, exist_ok=True)
        shutil.chown(run, "munge", "munge")
        self._spawn("munged", ["munged", "-F"], "munge")
        self._wait("munge", lambda: Path("/run/munge/munge.socket.2").exists())

    def _start_database(self) -> None:
        place = self.root / "mysql"
        (place / "run").mkdir(parents=True)
        install = ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={place}/data"]
        words = [*install, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(words, check=True, capture_output=True)
        subprocess.run(["chown", "-R", "mysql:mysql", str(place)], check=True)
        server = ["mariadbd", "--no-defaults", "--user=mysql", f"--datadir={place}/data", "--bind-address=127.0.0.1"]
        files = [f"--socket={place}/run/s.sock", f"--pid-file={place}/run/pid", f"--port={self._ports['sql']}"]
        sizes = ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M"]
        self._spawn("mariadbd", [*server, *files, *sizes, "--skip-name-resolve"])
        client = ["mariadb", "--no-defaults", "-uroot", "-S", f"{place}/run/s.sock", "-e"]
        sql = (
            "create database if not exists slurm_acct_db;"
            "create user if not exists slurm@'127.0.0.1' identified by 'slurmpw';"
            "grant all on slurm_acct_db.* to slurm@'127.0.0.1';"
        )
        self._wait("MariaDB", lambda: subprocess.run([*client, sql], capture_output=True, check=False).returncode == 0)

    def _add_accounts(self) -> None:
        add = ("sacctmgr", "-i", "add")
        self.run(*add, "cluster", CLUSTER, check=False)
        for user, account in USERS.items():
            self.run(*add, "account", account, f"Cluster={CLUSTER}", "Description=for tests", "Organization=o")
            self.run(*add, "user", user, f"Account={account}")

    def _spawn(self, name: str, argv: Sequence[str], user: str | None = None) -> None:
        words = list(argv)
        if user is not None:
            group = str(pwd.getpwnam(user).pw_gid)
            words = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", *argv]
        environment = {**os.environ, **self.environment}
        if name == "slurmrestd":
            environment["SLURM_JWT"] = "daemon"
        with (self.root / f"{name}.out").open("ab") as log:
            self._children[name] = subprocess.Popen(
                words,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_port(self, name: str) -> None:
        def answers() -> bool:
            with contextlib.closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", self._ports[name])) == 0

        self._wait(name, answers)

    def _wait(self, what: str, is_there: Callable[[], bool], seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if is_there():
                return
            time.sleep(0.2)
        raise AssertionError(f"{what}: not within {seconds:g} s; see {self.root}")

    @staticmethod
    def _clear(root: Path) -> None:
        for path in sorted(root.rglob("*"), key=lambda found: -len(found.parts)):
            if path.is_dir():
                with contextlib.suppress(OSError):
                    path.rmdir()
        with contextlib.suppress(OSError):
            root.rmdir()


@contextlib.contextmanager
def running_cluster(root: Path, more_conf: str = "", more_dbd_conf: str = "") -> Iterator[SlurmCluster]:
    """Run one for the time of the block, once no other runs here."""
    with (Path(tempfile.gettempdir()) / "kwhere-tests-slurm.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = SlurmCluster(root, more_conf, more_dbd_conf)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
