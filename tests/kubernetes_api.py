"""A Kubernetes API server on loopback: real HTTP, pages, watches, bookmarks, history that is forgotten, and faults.

It grants what the shipped manifest grants and nothing else: a question beyond it fails the test that asked.
"""

import base64
import json
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes_manifests import documents

TOKEN = "t0ken-of-the-service-account"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PROFILES = "/apis/kubeflow.org/v1/profiles"
NOTEBOOKS = "/apis/kubeflow.org/v1/notebooks"
WORKSPACES = "/apis/kubeflow.org/v1beta1/workspaces"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/workflows"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""First of what a question accepts."""
CORE = (PODS, NODES, NAMESPACES, ROLE_BINDINGS)

Object = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource and verb."""


def granted(part: str = "rights") -> frozenset[Right]:
    """Return what the cluster roles of a part of the manifests allow."""
    roles = [one for one in documents(part) if one["kind"] == "ClusterRole"]
    return frozenset(
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    )


def right_to(path: str, verb: str) -> Right:
    """Return the right that a question needs: the group is in its path, none for the core."""
    parts = path.strip("/").split("/")
    return ("" if parts[0] == "api" else parts[1], parts[-1], verb)


@dataclass
class Faults:
    """What goes wrong from now on."""

    forbidden: set[str] = field(default_factory=set)
    status: int = 0
    """Of every answer; 0: none."""
    times: int | None = None
    """How many answers have that status; None: all."""
    retry_after: str = ""
    cut_after: int | None = None
    """Bytes of the next watch after which its connection is cut; once."""
    garbage: bool = False
    """The next watch says what is no event; once."""
    html: bool = False
    slow: bool = False
    forget_pages: int = 0
    """So many of the next continued lists are of a version that is forgotten."""
    bookmarks: bool = True
    """Whether a watch ends with a bookmark: a short one may be over before its time."""
    error_event: bool = False
    """A forgotten version is told by an event rather than a status, as by newer servers."""


class FakeKubernetes:
    """The objects, their history, and what was asked."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.url = ""
        self.faults = Faults()
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.accepts: list[tuple[str, str]] = []
        self.rights = granted()
        self.used: set[Right] = set()
        self.denied: list[Right] = []
        """What was asked for beyond the manifest."""
        self.stop: Callable[[], None] = lambda: None
        """Go down: nobody is answered, every connection is cut."""
        self.start: Callable[[], None] = lambda: None
        """Come back at the same address."""
        self.longest_watch_seconds = 60.0
        """A server may end a watch before its time."""
        self.over = threading.Event()
        self.changed = threading.Condition()
        self._objects: dict[str, dict[tuple[str, str], Object]] = {path: {} for path in CORE}
        self._events: list[tuple[int, str, str, Object]] = []
        self._snapshots: dict[int, list[Object]] = {}
        self._version = 100
        self._oldest = 100

    def with_kubeflow(self) -> None:
        """Install its kinds: before, the API answers 404."""
        for path in (PROFILES, NOTEBOOKS, WORKSPACES, WORKFLOWS):
            self._objects.setdefault(path, {})

    def put(self, path: str, item: Object) -> Object:
        """Create or replace an object."""
        with self.changed:
            about = item.setdefault("metadata", {})
            about.setdefault("uid", str(uuid.uuid4()))
            key = (about.get("namespace", ""), about["name"])
            kind = "MODIFIED" if key in self._objects[path] else "ADDED"
            self._objects[path][key] = item
            self._happened(path, kind, item)
            return item

    def delete(self, path: str, name: str, namespace: str = "") -> None:
        with self.changed:
            self._happened(path, "DELETED", self._objects[path].pop((namespace, name)))

    def forget(self) -> None:
        """Compact the history: nobody can watch from before now."""
        with self.changed:
            self._version += 1
            self._oldest = self._version
            self._events.clear()
            self._snapshots.clear()

    def objects(self, path: str) -> list[Object]:
        with self.changed:
            return list(self._objects[path].values())

    def asks(self, path: str, **having: str) -> list[Mapping[str, str]]:
        """Return the queries of one path that had such parameters."""
        return [query for asked, query in self.asked if asked == path and having.items() <= query.items()]

    def _happened(self, path: str, kind: str, item: Object) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, path, kind, json.loads(json.dumps(item))))
        self.changed.notify_all()

    def page(self, path: str, limit: int, token: str, selector: str = "") -> tuple[int, Object]:
        """Return status and body of a list; the token holds version and position. All pages are of one version."""
        with self.changed:
            start, version = 0, self._version
            if token:
                version, start = json.loads(base64.b64decode(token))
                if version < self._oldest or self.faults.forget_pages > 0:
                    self.faults.forget_pages = max(0, self.faults.forget_pages - 1)
                    return 410, problem(410, "Expired", "The provided continue parameter is too old")
                items = self._snapshots[version]
            else:
                fitting = (one for one in self._objects[path].values() if _fits(one, selector))
                items = sorted(fitting, key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"]))
            about: Object = {"resourceVersion": str(version)}
            if limit and start + limit < len(items):
                about["continue"] = base64.b64encode(json.dumps([version, start + limit]).encode()).decode()
                about["remainingItemCount"] = len(items) - start - limit
                self._snapshots[version] = json.loads(json.dumps(items))
            chosen = items[start : start + limit] if limit else items[start:]
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": about, "items": json.loads(json.dumps(chosen))}

    def is_gone(self, since: int) -> bool:
        return since < self._oldest

    def events(self, path: str, since: int) -> tuple[int, list[tuple[str, Object]]]:
        """Return the version now and what happened since; call it with `changed` held."""
        return self._version, [(kind, item) for at, of, kind, item in self._events if of == path and at > since]

    def knows(self, path: str) -> bool:
        return path in self._objects


def problem(code: int, reason: str, message: str) -> Object:
    """Return an API Status."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip


def _fits(item: Object, selector: str) -> bool:
    """Selectors of labels that must be there; no other form is asked for."""
    return not selector or selector in item["metadata"].get("labels", {})


def _metadata_of(page: Object) -> Object:
    items = [
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": one["metadata"]}
        for one in page["items"]
    ]
    return {**page, "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: FakeKubernetes

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.cluster.asked.append((parts.path, query))
        self.cluster.accepts.append((parts.path, self.headers.get("Accept", "")))
        watches = query.get("watch", "").lower() in ("true", "1")
        refused = self._refusal(parts.path, "watch" if watches else "list")
        if refused is not None:
            self._say(*refused)
        elif watches:
            self._watch(parts.path, query)
        else:
            self._list(parts.path, query)

    def _list(self, path: str, query: Mapping[str, str]) -> None:
        limit, token = int(query.get("limit", 0)), query.get("continue", "")
        status, page = self.cluster.page(path, limit, token, query.get("labelSelector", ""))
        wants_metadata = status == 200 and self.headers.get("Accept", "").startswith(METADATA_ONLY)
        self._say(status, _metadata_of(page) if wants_metadata else page)

    def _refusal(self, path: str, verb: str) -> tuple[int, Object] | None:
        faults, right = self.cluster.faults, right_to(path, verb)
        self.cluster.used.add(right)
        if right not in self.cluster.rights:
            self.cluster.denied.append(right)
            return 403, problem(403, "Forbidden", f"the manifest does not allow to {verb} {path}")
        if faults.slow:
            self.cluster.over.wait(20)
        if self.headers.get("Authorization") != f"Bearer {self.cluster.token}":
            return 401, problem(401, "Unauthorized", "Unauthorized")
        if faults.status and faults.times != 0:
            faults.times = None if faults.times is None else faults.times - 1
            return faults.status, problem(faults.status, "Fault", "etcdserver: leader changed")
        if path in faults.forbidden:
            return 403, problem(403, "Forbidden", f'pods is forbidden: User "kwhere" cannot list {path}')
        if not self.cluster.knows(path):
            return 404, problem(404, "NotFound", "the server could not find the requested resource")
        return None

    def _say(self, status: int, document: Object) -> None:
        body = b"<html>a proxy</html>" if self.cluster.faults.html else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.cluster.faults.retry_after:
            self.send_header("Retry-After", self.cluster.faults.retry_after)
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, path: str, query: Mapping[str, str]) -> None:
        cluster, since = self.cluster, int(query.get("resourceVersion", 0))
        gone = problem(410, "Expired", f"too old resource version: {since}")
        if cluster.is_gone(since) and not cluster.faults.error_event:
            self._say(410, gone)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if cluster.is_gone(since):
            self._chunk(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
        else:
            seconds = min(float(query.get("timeoutSeconds", 30)), cluster.longest_watch_seconds)
            self._tell(path, since, time.monotonic() + seconds)
        self.wfile.write(b"0\r\n\r\n")

    def _tell(self, path: str, since: int, until: float) -> None:
        cluster = self.cluster
        if cluster.faults.garbage:
            cluster.faults.garbage = False
            self._chunk(b'{"type": "ADDED", "obj\n')
            return
        while time.monotonic() < until and not cluster.over.is_set():
            with cluster.changed:
                now, events = cluster.events(path, since)
                if not events:
                    cluster.changed.wait(min(0.1, max(0.001, until - time.monotonic())))
            for kind, item in events:
                self._chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            since = now
        if not cluster.faults.bookmarks:
            return
        bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(since)}}
        self._chunk(json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        faults = self.cluster.faults
        if faults.cut_after is not None:
            if len(data) > faults.cut_after:
                data, faults.cut_after = data[: faults.cut_after], None
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
                self.connection.close()
                raise BrokenPipeError
            faults.cut_after -= len(data)
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, cluster: FakeKubernetes, context: ssl.SSLContext | None) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), type("Handler", (_Handler,), {"cluster": cluster}))
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that gives up is what some tests are about

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def kubernetes(
    certificate: tuple[Path, Path] | None = None, cluster: FakeKubernetes | None = None
) -> Iterator[FakeKubernetes]:
    """Yield an API server; with certificate and key it speaks TLS. What it denied beyond the manifest is an error."""
    cluster = cluster or FakeKubernetes()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    running = [_Server(0, cluster, context)]
    port = running[0].server_address[1]
    cluster.url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
    cluster.stop = lambda: running.pop().end()
    cluster.start = lambda: running.append(_Server(int(port), cluster, context))
    try:
        yield cluster
    finally:
        cluster.over.set()
        for each in running:
            each.end()
    assert not cluster.denied, f"asked for beyond the manifest: {cluster.denied}"
