"""A real Keystone and Nova API on loopback, without a compute service: servers are put in through Nova's own objects.

Debian's packages `keystone` and `nova-api`; half a minute to set up. They run on SQLite, as root and as keystone.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
_PROGRAMS = ("keystone-manage", "keystone-wsgi-public", "nova-manage", "nova-api", "openstack", "runuser")
_PYTHON = "/usr/bin/python3"
PASSWORD = "administrator's"

KEYSTONE_POLICY = "".join(
    f'"identity:list_{what}": "rule:admin_required or (role:reader and system_scope:all) or role:kwhere"\n'
    for what in ("domains", "projects", "users", "role_assignments")
)
NOVA_POLICY = "".join(
    f'"os_compute_api:{rule}": "rule:context_is_admin or role:kwhere"\n'
    for rule in ("servers:detail:get_all_tenants", "os-extended-server-attributes", "os-hypervisors:list-detail")
)
"""What docs/openstack.md says."""

_SEED = """
import datetime, json, sys
from nova import config, context, objects
from nova.network import model
config.parse_args(["seed", "--config-file", sys.argv[1]])
objects.register_all()
admin = context.get_admin_context()
cell = [each for each in objects.CellMappingList.get_all(admin) if each.name == "cell1"][0]
flavor = objects.Flavor(admin, flavorid="1", name="g1", memory_mb=64, vcpus=2, root_gb=1, ephemeral_gb=0, swap=0,
    rxtx_factor=1.0, is_public=True, disabled=False, extra_specs={"pci_passthrough:alias": "a100:1"})
flavor.create()
flavor = objects.Flavor.get_by_flavor_id(admin, "1")
flavor.extra_specs
now = datetime.datetime.utcnow()
with context.target_cell(admin, cell) as inner:
    for row in json.load(sys.stdin):
        started = {} if row["state"] == "building" else {"launched_at": now}
        server = objects.Instance(context=inner, uuid=row["id"], project_id=row["project"], user_id=row["user"],
            host="hv1", node="hv1", vm_state=row["state"], power_state=1, display_name=row["name"], flavor=flavor,
            old_flavor=None, new_flavor=None, instance_type_id=flavor.id, memory_mb=64, vcpus=2, root_gb=1,
            ephemeral_gb=0, metadata={}, system_metadata={}, **started)
        server.create()
        server.info_cache = objects.InstanceInfoCache(
            context=inner, instance_uuid=row["id"], network_info=model.NetworkInfo([]))
        server.info_cache.save()
        objects.InstanceMapping(admin, instance_uuid=row["id"], project_id=row["project"], user_id=row["user"],
            cell_mapping=cell, queued_for_delete=False).create()
        if row["state"] == "soft-delete":
            server.task_state = "restoring"
            server.save()
            server.task_state = None
            server.save()
        if row["state"] == "deleted":
            server.terminated_at = now
            server.save()
            server.destroy()
"""


def is_installed() -> bool:
    """Return whether the programs are here, and ours to start."""
    return os.geteuid() == 0 and all(shutil.which(name, path=_PATH) for name in _PROGRAMS)


@dataclass
class RealCloud:
    """The services in a directory of their own."""

    root: Path
    keystone: int
    nova: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def auth_url(self) -> str:
        return f"http://127.0.0.1:{self.keystone}/v3"

    def openstack(self, *words: str) -> str:
        """Return the id that the command line client prints of what it creates, as the administrator."""
        login = {
            "AUTH_URL": self.auth_url, "USERNAME": "admin", "PASSWORD": PASSWORD, "PROJECT_NAME": "admin",
            "USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_NAME": "Default", "IDENTITY_API_VERSION": "3",
        }  # fmt: skip
        shown = ("-f", "value", "-c", "id") if "create" in words else ()
        return self.run(("openstack", *words, *shown), {f"OS_{name}": value for name, value in login.items()})

    def seed(self, servers: Sequence[Mapping[str, str]]) -> None:
        """Put servers in: id, name, user and project by id, state as Nova's own objects have it."""
        self.run((_PYTHON, "-c", _SEED, str(self.root / "nova.conf")), words=json.dumps(servers))

    def run(self, argv: Sequence[str], more: Mapping[str, str] | None = None, words: str = "") -> str:
        done = subprocess.run(
            argv,
            input=words,
            env={"PATH": _PATH, "HOME": "/root", **(more or {})},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv[:4])}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def start(self, *argv: str, port: int, environment: Mapping[str, str] | None = None) -> None:
        with (self.root / "log").open("ab") as log:
            env = {"PATH": _PATH, "HOME": "/root", **(environment or {})}
            self.processes.append(
                subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd=self.root, start_new_session=True)
            )
        deadline = time.monotonic() + 60
        while not _is_open(port):
            assert time.monotonic() < deadline, (self.root / "log").read_text(errors="replace")[-2000:]
            time.sleep(0.1)


@contextmanager
def running() -> Iterator[RealCloud]:
    """Yield both services with the policies of the tutorial in force."""
    root = Path(tempfile.mkdtemp(prefix="kwhere-cloud-"))
    root.chmod(0o755)
    cloud = RealCloud(root, _free_port(), _free_port())
    networks = ThreadingHTTPServer(("127.0.0.1", 0), _Networks)
    thread = threading.Thread(target=networks.serve_forever, args=(0.05,))
    thread.start()
    try:
        _set_up_keystone(cloud)
        _set_up_nova(cloud, networks.server_port)
        yield cloud
    finally:
        for process in cloud.processes:
            os.killpg(process.pid, signal.SIGKILL)  # nova-api would wait a minute for its clients
            process.wait(30)
        networks.shutdown()
        thread.join()
        networks.server_close()
        shutil.rmtree(root, ignore_errors=True)


def _set_up_keystone(cloud: RealCloud) -> None:
    place = cloud.root / "keystone"
    place.mkdir()
    (place / "policy.yaml").write_text(KEYSTONE_POLICY)
    (place / "keystone.conf").write_text(
        f"[database]\nconnection = sqlite:///{place}/keystone.db\n[token]\nprovider = fernet\n"
        f"[fernet_tokens]\nkey_repository = {place}/fernet\n[credential]\nkey_repository = {place}/credential\n"
        f"[cache]\nenabled = false\n[oslo_policy]\npolicy_file = {place}/policy.yaml\n"
    )
    shutil.chown(place, "keystone")
    manage = ("runuser", "-u", "keystone", "--", "keystone-manage", "--config-file", str(place / "keystone.conf"))
    cloud.run((*manage, "db_sync"))
    # A writer would wait for readers for ever otherwise: they share a thread.
    _write_ahead(place / "keystone.db")
    for words in ("fernet_setup", "credential_setup"):
        cloud.run((*manage, words, "--keystone-user", "keystone", "--keystone-group", "keystone"))
    urls = [word for kind in ("admin", "internal", "public") for word in (f"--bootstrap-{kind}-url", cloud.auth_url)]
    cloud.run((*manage, "bootstrap", "--bootstrap-password", PASSWORD, *urls, "--bootstrap-region-id", "RegionOne"))
    for name in place.glob("keystone.db*"):
        shutil.chown(name, "keystone")
    # Its WSGI script reads the configuration of the environment alone.
    serve = ("runuser", "-u", "keystone", "--", "keystone-wsgi-public", "--host", "127.0.0.1")
    where = {"OS_KEYSTONE_CONFIG_DIR": str(place), "OS_KEYSTONE_CONFIG_FILES": "keystone.conf"}
    cloud.start(*serve, "--port", str(cloud.keystone), port=cloud.keystone, environment=where)


def _set_up_nova(cloud: RealCloud, networks: int) -> None:
    root = cloud.root
    (root / "policy.yaml").write_text(NOVA_POLICY)
    login = (
        f"auth_url = http://127.0.0.1:{cloud.keystone}\nauth_type = password\nproject_domain_id = default\n"
        f"user_domain_id = default\nproject_name = admin\nusername = admin\npassword = {PASSWORD}\n"
    )
    (root / "nova.conf").write_text(
        f"[DEFAULT]\ntransport_url = fake:///\nenabled_apis = osapi_compute\nosapi_compute_listen = 127.0.0.1\n"
        f"osapi_compute_listen_port = {cloud.nova}\nosapi_compute_workers = 1\nstate_path = {root}\n"
        f"[api]\nauth_strategy = keystone\n[api_database]\nconnection = sqlite:///{root}/api.db\n"
        f"[database]\nconnection = sqlite:///{root}/nova.db\n[oslo_concurrency]\nlock_path = {root}/lock\n"
        f"[oslo_policy]\npolicy_file = {root}/policy.yaml\n[keystone_authtoken]\n{login}"
        f"www_authenticate_uri = http://127.0.0.1:{cloud.keystone}\n[placement]\n{login}[neutron]\n{login}"
        f"endpoint_override = http://127.0.0.1:{networks}\n"
    )
    manage = ("nova-manage", "--config-file", str(root / "nova.conf"))
    cloud.run((*manage, "api_db", "sync"))
    cloud.run((*manage, "cell_v2", "map_cell0", "--database_connection", f"sqlite:///{root}/cell0.db"))
    cell = ("--name", "cell1", "--database_connection", f"sqlite:///{root}/nova.db", "--transport-url", "fake:///")
    cloud.run((*manage, "cell_v2", "create_cell", *cell))
    cloud.run((*manage, "db", "sync"))
    for name in ("api.db", "nova.db", "cell0.db"):
        _write_ahead(root / name)
    cloud.openstack("service", "create", "--name", "nova", "compute")
    url = f"http://127.0.0.1:{cloud.nova}/v2.1"
    cloud.openstack("endpoint", "create", "--region", "RegionOne", "compute", "public", url)
    cloud.start("nova-api", "--config-file", str(root / "nova.conf"), port=cloud.nova)


def _write_ahead(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class _Networks(BaseHTTPRequestHandler):
    """As much of Neutron as listing servers wants: there are no ports."""

    def do_GET(self) -> None:
        body = b'{"ports": [], "networks": [], "subnets": [], "floatingips": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
