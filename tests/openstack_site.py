"""A Keystone and a Nova on loopback, in the shapes of their documentation; tokens that end, pages, faults on demand."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PASSWORD = "p@ss: w\u00f6rd"
UUID = "1111aaaa-2222-3333-4444-55555555550{}"
DOMAINS = [{"id": "default", "name": "Default"}, {"id": "d2", "name": "lab"}]
USERS = [
    {"id": "u1", "name": "alice", "domain_id": "default", "enabled": True},
    {"id": "u2", "name": "bob", "domain_id": "default", "enabled": False},
    {"id": "u3", "name": "bob", "domain_id": "d2", "enabled": True},
]
PROJECTS = [
    {
        "id": "p1",
        "name": "cfd",
        "domain_id": "default",
        "enabled": True,
        "description": "Fluids",
        "parent_id": "default",
    },
    {"id": "p2", "name": "old", "domain_id": "default", "enabled": False, "description": "", "parent_id": "p1"},
]
ASSIGNMENTS = [
    {"user": {"id": "u1"}, "scope": {"project": {"id": "p1"}}, "role": {"id": "member"}},
    {"user": {"id": "u1"}, "scope": {"project": {"id": "p1"}}, "role": {"id": "reader"}},
    {"user": {"id": "u3"}, "scope": {"project": {"id": "p1"}}, "role": {"id": "member"}},
    {"user": {"id": "u1"}, "scope": {"system": {"all": True}}, "role": {"id": "admin"}},
    {"group": {"id": "g1"}, "scope": {"project": {"id": "p2"}}},
]


def server(number: int, **changes: Any) -> dict[str, Any]:
    """Return a server as Nova 2.47 tells it: it runs since noon of 2026-01-01."""
    return {
        "id": UUID.format(number),
        "name": f"vm{number}",
        "status": "ACTIVE",
        "tenant_id": "p1",
        "user_id": "u1",
        "created": "2026-01-01T12:00:00Z",
        "updated": "2026-01-01T12:00:30Z",
        "OS-SRV-USG:launched_at": "2026-01-01T12:00:20.000000",
        "OS-SRV-USG:terminated_at": None,
        "OS-EXT-SRV-ATTR:host": "cmp1",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": "cmp1.example",
        "OS-EXT-SRV-ATTR:instance_name": f"instance-0000000{number}",
        "OS-EXT-AZ:availability_zone": "nova",
        "flavor": {
            "original_name": "g.large",
            "vcpus": 8,
            "ram": 16384,
            "disk": 20,
            "extra_specs": {"pci_passthrough:alias": "a100:2,nic:1", "hw:cpu_policy": "dedicated"},
        },
        **changes,
    }


def ended(number: int, at: str, **changes: Any) -> dict[str, Any]:
    return server(number, status="DELETED", **{"OS-SRV-USG:terminated_at": at, "updated": f"{at}Z"}, **changes)


@dataclass
class Cloud:
    """What the two services say; a test changes it."""

    servers: list[dict[str, Any]] = field(default_factory=list)
    deleted: list[dict[str, Any]] = field(default_factory=list)
    hypervisors: list[dict[str, Any]] = field(default_factory=list)
    users: list[dict[str, Any]] = field(default_factory=lambda: list(USERS))
    projects: list[dict[str, Any]] = field(default_factory=lambda: list(PROJECTS))
    assignments: list[dict[str, Any]] = field(default_factory=lambda: list(ASSIGNMENTS))
    flavors: list[dict[str, Any]] = field(default_factory=list)
    extra_specs: dict[str, dict[str, str]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    """Paths that answer 403."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Said instead, by path."""
    truncated: bool = False
    logins: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    token_number: int = 0
    is_expired: bool = False
    url: str = ""

    def log_in(self, body: Mapping[str, Any]) -> tuple[int, object, dict[str, str]]:
        self.logins.append(dict(body))
        identity = body["auth"]["identity"]
        given = identity.get("password", {}).get("user", {}).get("password")
        given = given or identity.get("application_credential", {}).get("secret")
        if given != PASSWORD:
            return 401, {"error": {"message": f"{given} is wrong"}}, {}
        self.token_number += 1
        self.is_expired = False
        endpoints = [
            {"interface": "public", "region": "R1", "region_id": "R1", "url": f"{self.url}/v2.1"},
            {"interface": "internal", "region": "R1", "region_id": "R1", "url": "http://10.0.0.1:8774/v2.1"},
        ]
        catalog = [{"type": "image", "endpoints": []}, {"type": "compute", "name": "nova", "endpoints": endpoints}]
        return 201, {"token": {"catalog": catalog}}, {"X-Subject-Token": f"token-{self.token_number}"}

    def answer(self, path: str, query: dict[str, str], headers: dict[str, str]) -> tuple[int, object]:
        self.asked.append((path, query, headers))
        if self.is_expired or headers.get("x-auth-token") != f"token-{self.token_number}":
            return 401, {"error": {"message": f"{headers.get('x-auth-token')} expired"}}
        if path in self.forbidden:
            return 403, {"forbidden": {"message": "Policy doesn't allow os_compute_api:x to be performed."}}
        lists: dict[str, tuple[str, list[dict[str, Any]]]] = {
            "/v3/domains": ("domains", DOMAINS),
            "/v3/users": ("users", self.users),
            "/v3/projects": ("projects", self.projects),
            "/v3/role_assignments": ("role_assignments", self.assignments),
        }
        if path in lists:
            key, rows = lists[path]
            return 200, {key: rows, "links": {"next": None}, **({"truncated": True} if self.truncated else {})}
        if path == "/v2.1/servers/detail":
            return 200, self.page("servers", self.listed(query), query)
        if path.startswith("/v2.1/flavors/"):
            return self.flavor(path.removeprefix("/v2.1/flavors/"), query)
        if path == "/v2.1/os-hypervisors/detail":
            return 200, self.page("hypervisors", self.hypervisors, query)
        return 404, {}

    def listed(self, query: dict[str, str]) -> list[dict[str, Any]]:
        """Servers that are deleted are told since a time, softly deleted ones not in the plain list (Nova 26.2)."""
        if query.get("deleted") == "true":
            return self.deleted
        every = [*self.deleted, *self.servers] if "changes-since" in query else self.servers
        return [each for each in every if query.get("status", each["status"]) == each["status"]]

    def flavor(self, path: str, query: dict[str, str]) -> tuple[int, object]:
        flavor_id, _, what = path.partition("/")
        if flavor_id == "detail":
            return 200, self.page("flavors", [each for each in self.flavors if not each.get("hidden")], query)
        found = next((each for each in self.flavors if each["id"] == flavor_id), None)
        if found is None:
            return 404, {"itemNotFound": {"code": 404}}
        return 200, {"extra_specs": self.extra_specs.get(flavor_id, {})} if what else {"flavor": found}

    def page(self, key: str, rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        ids = [str(row["id"]) for row in rows]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        end = start + int(query["limit"])
        links = [{"rel": "next", "href": "http://inner.invalid/?marker=x"}] if end < len(rows) else []
        return {key: rows[start:end], f"{key}_links": links}


@contextmanager
def serving(cloud: Cloud) -> Iterator[Cloud]:
    """Run both services at `cloud.url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, document = cloud.answer(parts.path, query, headers)
            self.say(status, cloud.bodies.get(parts.path, json.dumps(document).encode()), {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document, headers = cloud.log_in(body)
            self.say(status, json.dumps(document).encode(), headers)

        def say(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    cloud.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield cloud
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
