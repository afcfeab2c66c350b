"""A Kubernetes API in memory, as fast as a property test needs it: what is cut is cut at any byte of the answer.

Over sockets the same is asked of `tests.kubernetes_api`; here the server's part ends at the bytes of HTTP bodies.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from kwhere.core.errors import Unavailable
from kwhere.transport.http import Answer, Stream
from kwhere.transport.settings import HttpClientSettings

PODS = "/api/v1/pods"
Object = dict[str, Any]


def problem(code: int, reason: str, message: str = "of the tests", **more: Any) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "code": code, **more}


@dataclass
class MemoryKubernetes:
    """Pods, their history, and what goes wrong with the next answers."""

    pods: dict[str, Object] = field(default_factory=dict)
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    version: int = 100
    oldest: int = 100
    faults: list[Callable[[bytes], "Fault"]] = field(default_factory=list)
    """What happens to the next answers about pods, the first first."""
    lists: int = 0
    """How many lists of pods were begun."""
    extra: list[bytes] = field(default_factory=list)
    """Lines that the next watch says before its own."""

    def put(self, item: Object) -> None:
        """Create a pod or change it, by its uid."""
        self._happened("MODIFIED" if item["metadata"]["uid"] in self.pods else "ADDED", item)
        self.pods[item["metadata"]["uid"]] = self.history[-1][2]

    def delete(self, uid: str) -> None:
        self._happened("DELETED", self.pods.pop(uid))

    def compact(self) -> None:
        """Forget the history: nobody can watch from before now."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def _happened(self, kind: str, item: Object) -> None:
        self.version += 1
        kept = json.loads(json.dumps(item))
        kept["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, kind, kept))

    def page(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        items = [self.pods[uid] for uid in sorted(self.pods)]
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        self.lists += start == 0
        about: Object = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            about["continue"] = str(start + limit)
        return 200, json.dumps({"metadata": about, "items": items[start : start + limit]}).encode()

    def events(self, since: int) -> tuple[int, bytes]:
        if since < self.oldest:
            return 410, json.dumps(problem(410, "Expired")).encode()
        lines = [*self.extra]
        self.extra.clear()
        for version, kind, item in self.history:
            if version > since:
                lines.append(json.dumps({"type": kind, "object": item}, ensure_ascii=False).encode())
        mark = {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}
        return 200, b"".join(
            line + b"\n" for line in [*lines, json.dumps({"type": "BOOKMARK", "object": mark}).encode()]
        )


@dataclass(frozen=True)
class Fault:
    """What of an answer comes: its first bytes, then the connection breaks; or another status."""

    body: bytes
    breaks: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class MemoryAccess:
    """Stands in for `kubernetes_access.Access`: its clients ask the memory."""

    url = "https://memory.example"
    http = HttpClientSettings()

    def __init__(self, cluster: MemoryKubernetes) -> None:
        self.cluster = cluster
        self.token = "t"

    def read_token(self) -> str:
        return self.token

    def connect(self, token: str | None) -> "_Client":
        return _Client(self.cluster)


class _Client:
    def __init__(self, cluster: MemoryKubernetes) -> None:
        self._cluster = cluster

    def close(self) -> None:
        pass

    def get(self, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        if urlsplit(path).path != PODS:
            return Answer(404, {}, json.dumps(problem(404, "NotFound")).encode(), 0.0)
        status, body = self._cluster.page(params)
        fault = self._fault(body)
        if fault.breaks:
            raise Unavailable("closed", f"{path}: of the tests")
        return Answer(fault.status or status, fault.headers, fault.body, 0.0)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str], *, timeout_seconds: float) -> Iterator[Stream]:
        status, body = self._cluster.events(int(params["resourceVersion"]))
        fault = self._fault(body)

        def chunks() -> Iterator[bytes]:
            # in pieces that end anywhere, also within a letter
            yield from (fault.body[at : at + 37] for at in range(0, len(fault.body), 37))
            if fault.breaks:
                raise Unavailable("closed", f"{path}: of the tests")

        yield Stream(fault.status or status, fault.headers, chunks(), path, 1 << 20)

    def _fault(self, body: bytes) -> Fault:
        faults = self._cluster.faults
        return faults.pop(0)(body) if faults else Fault(body)
