"""A relist of Kubernetes pods: seconds from the first question until every unit is there, and what it costs in memory.

The API server is a process of its own that has its pages ready: what is measured is ours. Pods are as large as real
ones (managedFields, environment, conditions).
"""

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes_api import NODES, PODS, TOKEN
from tests.kubernetes_objects import container, node, owned, pod

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.transport.settings import HttpClientSettings

NODE_COUNT = 500


def make_pod(number: int) -> dict[str, Any]:
    """Return a pod of two containers, about 9 kB."""
    name = f"web-7d9f6c5b8-{number:05}"
    made = pod(name, f"team-{number % 200}", f"{number:08x}-0000-4000-8000-000000000000", f"n{number % NODE_COUNT}")
    made["metadata"] |= owned("ReplicaSet", "web-7d9f6c5b8", pod_template_hash="7d9f6c5b8")
    fields = {f"f:field{n}": {".": {}, "f:name": {}, "f:value": {}, "f:mountPath": {}} for n in range(60)}
    made["metadata"]["managedFields"] = [{"manager": "kube-controller-manager", "fieldsV1": fields}]
    main, side = container("main", cpu="500m", memory="1Gi"), container("proxy", cpu="100m", memory="128Mi")
    main["env"] = [{"name": f"SETTING_{n}", "value": "some value of a setting"} for n in range(40)]
    made["spec"]["containers"] = [main, side]
    made["status"]["conditions"] = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-29T12:00:06Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return made


def serve(pods: int, page_size: int, tell: Connection) -> None:
    """Answer lists until killed."""
    starts = range(0, pods, page_size)
    pages = {}
    for start in starts:
        following = str(start + page_size) if start + page_size < pods else ""
        items = [make_pod(number) for number in range(start, min(start + page_size, pods))]
        about = {"resourceVersion": "1", "continue": following}
        pages[PODS, str(start)] = json.dumps({"metadata": about, "items": items}, separators=(",", ":")).encode()
    nodes = [node(f"n{number}") for number in range(NODE_COUNT)]
    pages[NODES, "0"] = json.dumps({"metadata": {"resourceVersion": "1"}, "items": nodes}).encode()
    empty = b'{"metadata": {"resourceVersion": "1"}, "items": []}'

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            token = parse_qs(parts.query).get("continue", ["0"])[0]
            body = pages.get((parts.path, token), empty)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tell.send((server.server_address[1], sum(map(len, pages.values()))))
    server.serve_forever()


@contextmanager
def serving(pods: int, page_size: int) -> Iterator[tuple[int, int]]:
    """Yield the port of a server, and how many bytes all its pages have."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=serve, args=(pods, page_size, theirs), daemon=True)
    child.start()
    yield ours.recv()
    child.kill()
    child.join()


def main() -> None:
    """Print a line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    settings = KubernetesSettings(manager="kubernetes", cluster="k1")
    with serving(asked.pods, settings.page_size) as (port, size):
        for _ in range(asked.runs):
            clock = SystemClock()
            access = Access(f"http://127.0.0.1:{port}", HttpClientSettings(), TOKEN)
            manager = KubernetesManager(settings, KubernetesApi(access, clock), clock)
            wall, cpu = time.perf_counter(), time.process_time()
            now = datetime.now(UTC)
            found = list(manager.fetch_units(Span(now - timedelta(hours=6), now)))
            figure = {
                "bench": "kubernetes_relist",
                "pods": len(found),
                "answer_mb": round(size / 1e6, 1),
                "seconds": round(time.perf_counter() - wall, 2),
                "cpu_seconds": round(time.process_time() - cpu, 2),
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "load": round(os.getloadavg()[0], 1),
            }
            print(json.dumps(figure), flush=True)
            manager.close()


if __name__ == "__main__":
    main()
