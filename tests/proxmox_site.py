"""A Proxmox VE API on loopback, in the shapes of a cluster of two nodes: `{"data": …}`, a token, rights that lack."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "kwhere@pve!account=11111111-2222-3333-4444-555555555555"
UUID = "0b5a9c1e-6a7d-4f3b-9a46-5d0f2c7e8a01"
CREATED = 1_764_000_000
Row = dict[str, Any]


def machine(vm_id: int, **changes: Any) -> Row:
    """Return a running machine of 4 CPUs and 8 GiB as `/cluster/resources` tells it."""
    return {
        "id": f"qemu/{vm_id}",
        "type": "qemu",
        "vmid": vm_id,
        "name": f"vm{vm_id}",
        "node": "pve1",
        "status": "running",
        "template": 0,
        "uptime": 3600,
        "cpu": 0.0123,
        "maxcpu": 4,
        "mem": 2147483648,
        "maxmem": 8589934592,
        "disk": 0,
        "maxdisk": 34359738368,
        "pool": "cfd",
        "tags": "owner-alice;prod",
        **changes,
    }


def container(vm_id: int, **changes: Any) -> Row:
    row = {"id": f"lxc/{vm_id}", "type": "lxc", "name": f"ct{vm_id}", "maxcpu": 1, "maxmem": 536870912}
    return {**machine(vm_id), **row, **changes}


def config(**changes: Any) -> Row:
    return {
        "boot": "order=scsi0",
        "cores": 4,
        "memory": "8192",
        "meta": f"creation-qemu=9.0.2,ctime={CREATED}",
        "name": "vm100",
        "smbios1": f"uuid={UUID}",
        "vmgenid": "5f0a2c4e-0000-4000-8000-000000000001",
        "digest": "9b1d5f6d9b3a5a6d4a2f1a2b3c4d5e6f7a8b9c0d",
        **changes,
    }


@dataclass
class Proxmox:
    """What the API says; a test changes it."""

    guests: list[Row] = field(default_factory=list)
    configs: dict[str, Row] = field(default_factory=dict)
    """By `qemu/100`."""
    tasks: list[Row] = field(default_factory=list)
    acl: list[Row] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Said instead, by path."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, query: dict[str, str], authorization: str) -> tuple[int, bytes]:
        path = path.removeprefix("/api2/json")
        self.asked.append((path, query))
        if authorization != f"PVEAPIToken={TOKEN}":
            return 401, b""
        if path in self.forbidden:
            return 403, json.dumps({"data": None, "message": "Permission check failed (/, Sys.Audit)"}).encode()
        if path in self.bodies:
            return 200, self.bodies[path]
        lists: dict[str, list[Row]] = {
            "/cluster/resources": self.guests if query == {"type": "vm"} else [],
            "/nodes": [
                {"node": "pve1", "type": "node", "status": "online", "maxcpu": 32, "maxmem": 137438953472, "uptime": 9},
                {"node": "pve2", "type": "node", "status": "offline"},
            ],
            "/pools": [{"poolid": "cfd", "comment": "Fluids"}, {"poolid": "cfd/wing"}],
            "/access/acl": self.acl,
            "/access/groups": [{"groupid": "fluids", "users": "bob@pve,alice@pve", "comment": ""}],
        }
        if path in lists:
            return 200, json.dumps({"data": lists[path]}).encode()
        parts = path.strip("/").split("/")
        if parts[2:] == ["tasks"]:
            return 200, json.dumps({"data": [t for t in self.tasks if t["type"] == query["typefilter"]]}).encode()
        key = "/".join(parts[2:4])
        if parts[-1] == "config" and key in self.configs:
            return 200, json.dumps({"data": self.configs[key]}).encode()
        return 500, b'{"data":null}'


@contextmanager
def serving(site: Proxmox) -> Iterator[Proxmox]:
    """Run the API at `site.url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            status, body = site.answer(parts.path, query, self.headers.get("Authorization", ""))
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    site.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield site
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
