"""A real Prometheus of our own: its own data directory, a free port, fed by remote write, ended by its pid."""

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kwhere.core.errors import Unavailable
from kwhere.series.store import ScrapedSample
from kwhere.transport.http import HttpClient

CONFIGURATION = "global: {scrape_interval: 1h}\n"
STALE = struct.unpack("<d", bytes.fromhex("020000000000f07f"))[0]
"""The NaN that Prometheus writes where a series ends."""


class PrometheusServer:
    """A running server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = HttpClient(url)

    def write(self, samples: Sequence[ScrapedSample]) -> None:
        """Send samples by remote write, in time order."""
        for start in range(0, len(samples), 20_000):
            ordered = sorted(samples, key=lambda sample: sample.time_s)[start : start + 20_000]
            body = b"".join(_field(1, _series(sample)) for sample in ordered)
            answer = self._client.post(
                "/api/v1/write",
                content=_snappy(body),
                headers={
                    "Content-Encoding": "snappy",
                    "Content-Type": "application/x-protobuf",
                    "X-Prometheus-Remote-Write-Version": "0.1.0",
                },
            )
            assert answer.status == 204, answer.text

    def is_ready(self) -> bool:
        try:
            return self._client.get("/-/ready").status == 200
        except Unavailable:
            return False

    def close(self) -> None:
        self._client.close()


@contextmanager
def running_prometheus(
    configuration: str = CONFIGURATION,
    retention: Sequence[str] = ("--storage.tsdb.retention.time=3650d",),
    history: str | None = None,
) -> Iterator[PrometheusServer]:
    """Yield a fresh server with this configuration, which names no scrape target by default.

    `history` is OpenMetrics text: what the server's blocks hold from before its start.
    """
    home = Path(tempfile.mkdtemp(prefix="kwhere-prometheus-"))
    (home / "prometheus.yml").write_text(configuration)
    if history is not None:
        (home / "history").write_text(history)
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(home / "history"), str(home / "data")]
        subprocess.run(command, check=True, capture_output=True)
    address = f"127.0.0.1:{_free_port()}"
    command = [
        "prometheus",
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'data'}",
        *retention,
        f"--web.listen-address={address}",
        "--web.enable-remote-write-receiver",
        "--log.level=warn",
    ]
    with _running(command, PrometheusServer(f"http://{address}"), home) as server:
        yield server


class VictoriaMetricsServer(PrometheusServer):
    """A running VictoriaMetrics: it takes the same writes, which it shows after a flush."""

    def write(self, samples: Sequence[ScrapedSample]) -> None:
        super().write(samples)
        assert self._client.get("/internal/force_flush").status == 200

    def is_ready(self) -> bool:
        try:
            return self._client.get("/health").status == 200
        except Unavailable:
            return False


@contextmanager
def running_victoria_metrics() -> Iterator[VictoriaMetricsServer]:
    """Yield a fresh server that keeps five years."""
    home = Path(tempfile.mkdtemp(prefix="kwhere-victoria-"))
    address = f"127.0.0.1:{_free_port()}"
    command = [
        "victoria-metrics",
        f"-storageDataPath={home / 'data'}",
        f"-httpListenAddr={address}",
        "-retentionPeriod=60",
        "-memory.allowedBytes=256MB",
        "-loggerLevel=WARN",
        "-search.latencyOffset=0s",
        "-search.disableCache",
    ]
    with _running(command, VictoriaMetricsServer(f"http://{address}"), home) as server:
        yield server


Server = TypeVar("Server", bound=PrometheusServer)


@contextmanager
def _running(command: Sequence[str], server: Server, home: Path) -> Iterator[Server]:
    with (home / "log").open("wb") as log:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        deadline = time.monotonic() + 60
        while not server.is_ready():
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, f"{command[0]} does not get ready"
            time.sleep(0.02)
        yield server
    finally:
        server.close()
        process.terminate()
        process.wait()
        shutil.rmtree(home)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _series(sample: ScrapedSample) -> bytes:
    labels = sorted([("__name__", sample.name), *((k, v) for k, v in sample.labels if v)])
    encoded = b"".join(_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in labels)
    value = b"\x09" + struct.pack("<d", sample.value) + b"\x10" + _varint(round(sample.time_s * 1000))
    return encoded + _field(2, value)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _snappy(content: bytes) -> bytes:
    """Return `content` in snappy's format, as literals only."""
    out = [_varint(len(content))]
    for start in range(0, len(content), 65536):
        part = content[start : start + 65536]
        out.append(b"\xf4" + struct.pack("<H", len(part) - 1) + part)
    return b"".join(out)
