"""The admission webhook: how long an API server waits for it over a kept TLS connection, and the CPU of an answer."""

import argparse
import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.kubernetes import make_pod
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.unit.agent.certificates import make_authority

from kwhere.agent.admission_settings import AdmissionWebhookSettings
from kwhere.resource_managers.kubernetes_stamping import Stamper
from kwhere.resource_managers.kubernetes_stamps import Seal

KEY = "k" * 64


def review() -> bytes:
    """Return a review of a pod of about 9 kB."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "alice@example.org"},
        "object": make_pod(1),
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answer_ms(body: bytes, runs: int) -> float:
    """Return the CPU time of one answer in ms."""
    stamper = Stamper(Seal([KEY]), AdmissionWebhookSettings().controllers)
    began = time.process_time()
    for _ in range(runs):
        stamper.answer(body)
    return (time.process_time() - began) / runs * 1e3


def asked_ms(address: str, context: ssl.SSLContext, body: bytes, runs: int) -> list[float]:
    """Return how long each question took, ms, in order of length."""
    connection = http.client.HTTPSConnection(address, context=context, timeout=5)
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        connection.request("POST", "/stamp", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        found.append((time.perf_counter() - began) * 1e3)
    connection.close()
    return sorted(found)


def wait_for(address: str) -> None:
    """Return when somebody listens."""
    host, port = address.split(":")
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
            return
        time.sleep(0.1)


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs, body = parser.parse_args().runs, review()
    with tempfile.TemporaryDirectory() as name:
        directory, address = Path(name), free_address()
        authority = make_authority(directory)
        certificate, key = authority.issue("hook")
        (directory / "web.yaml").write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n")
        key_file = RoleProcesses(directory).secret("stamp.key", KEY)
        flags = {"listen-address": address, "config.file": f"{directory}/web.yaml", "key-file": key_file}
        command = [sys.executable, "-m", "kwhere", "admission-webhook"]
        for flag, value in flags.items():
            command += [f"--admission-webhook.{flag}", value]
        hook = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_for(address)
            took = asked_ms(address, ssl.create_default_context(cafile=str(authority.ca_file)), body, runs)
            status = Path(f"/proc/{hook.pid}/status").read_text()
        finally:
            hook.terminate()
            hook.wait()
    figure = {
        "bench": "admission_review",
        "review_kb": round(len(body) / 1e3, 1),
        "median_ms": round(took[len(took) // 2], 2),
        "p99_ms": round(took[len(took) * 99 // 100], 2),
        "answer_cpu_ms": round(answer_ms(body, runs), 3),
        "rss_mb": int(status.split("VmRSS:")[1].split()[0]) // 1024,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
