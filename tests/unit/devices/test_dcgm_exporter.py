"""A site's dcgm-exporter tells what the library does not: through HTTP, the watch and the collector."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.node import GpuNode, wait_until
from tests.fake_nvml.scenario import Scenario

from kwhere.devices.dcgm_exporter import HOLD_SECONDS, DcgmExporter
from kwhere.devices.gpu_activity import OutsideState, lacks_activity
from kwhere.devices.gpu_fields import GpuField

GRAPHICS = GpuField.PROF_GRAPHICS_RATIO


class Exporter:
    """A dcgm-exporter that prints what a test tells it."""

    def __init__(self) -> None:
        self.page = b""
        self.status = 200
        self.server = "SomethingElse"
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += self.path == "/metrics"
                self.send_response_only(outer.status)
                self.send_header("Server", outer.server)
                self.end_headers()
                self.wfile.write(outer.page)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def tell(self, uuid: str, ratio: float, instance: int | None = None) -> None:
        mig = "" if instance is None else f',GPU_I_PROFILE="1g.5gb",GPU_I_ID="{instance}"'
        self.page += f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{uuid}"{mig}}} {ratio}\n'.encode()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    yield made
    made.close()


def test_activity_is_known_after_the_answer(exporter: Exporter) -> None:
    exporter.tell("GPU-a", 0.25)
    source = DcgmExporter(f"{exporter.url}/metrics")

    source.ask()

    found = source.latest()
    source.close()
    assert found is not None
    assert (found.source, found.values) == ("dcgm_exporter", {("GPU-a", None): {GRAPHICS: 0.25}})
    assert source.states() == (OutsideState("dcgm_exporter", exporter.url, True),)


def test_an_empty_page_leaves_what_was_known_for_a_while(exporter: Exporter) -> None:
    now_ns = [0]
    source = DcgmExporter(exporter.url, lambda: False, lambda: now_ns[0])
    exporter.tell("GPU-a", 0.25)
    source.ask()
    exporter.page = b""

    source.ask()

    assert source.states()[0].reason == "no_data"
    assert source.latest() is not None
    now_ns[0] = int(HOLD_SECONDS * 1e9) + 1
    assert source.latest() is None
    source.close()


@pytest.mark.parametrize(
    ("status", "server", "reason"),
    [
        pytest.param(500, "x", "error", id="an error page"),
        pytest.param(200, "kwhere dcgm-exporter", "own", id="our own face"),
    ],
)
def test_an_answer_that_is_none_is_told(exporter: Exporter, status: int, server: str, reason: str) -> None:
    exporter.status, exporter.server = status, server
    exporter.tell("GPU-a", 0.25)
    source = DcgmExporter(exporter.url, lambda: False)

    source.ask()

    assert source.latest() is None
    source.close()
    assert (source.states()[0].up, source.states()[0].reason) == (False, reason)


def test_nobody_there_is_told(exporter: Exporter) -> None:
    exporter.close()
    source = DcgmExporter(exporter.url)

    source.ask()

    assert source.states()[0].reason == "refused"


@pytest.mark.service("cc")
def test_what_the_library_does_not_tell_comes_from_beside_it(exporter: Exporter, tmp_path: Path) -> None:
    old, new = split(gpu(A100, 0), ["3g.20gb", "1g.5gb"]), gpu(H100, 1)
    node = GpuNode(tmp_path, Scenario([old, new, gpu(A100, 2)]))
    source = DcgmExporter(exporter.url, lambda: lacks_activity(node.watch.snapshot()))
    node.watch = node.new_watch(outside=source)
    exporter.tell(old.uuid, 0.75, old.migs[1].gpu_instance)
    exporter.tell(new.uuid, 0.1)
    exporter.tell("GPU-of-another-node", 0.1)
    node.poll()
    source.ask()
    wait_until(lambda: node.poll().devices[1].readings is not None and GRAPHICS in node.device(1).readings.values)  # type: ignore[union-attr]

    first, second, third = node.poll().devices
    node.close()

    assert first.readings is not None
    assert second.readings is not None
    assert third.readings is not None
    assert [(one.readings.ratio(GRAPHICS), one.readings.activity) for one in first.instances] == [
        (None, ""),
        (0.75, "dcgm_exporter"),
    ]
    assert (second.readings.ratio(GRAPHICS), second.readings.activity) == (0.0, "gpm")
    assert (third.readings.ratio(GRAPHICS), third.readings.activity) == (None, "")


@pytest.mark.service("cc")
def test_where_the_library_tells_all_nobody_else_is_asked(exporter: Exporter, tmp_path: Path) -> None:
    node = GpuNode(tmp_path, Scenario([gpu(H100, 0)]))
    node.watch = node.new_watch(outside=DcgmExporter(exporter.url, lambda: lacks_activity(node.watch.snapshot())))

    node.watch.start()
    wait_until(lambda: bool(node.watch.snapshot().devices) and node.watch.snapshot().devices[0].up)
    node.close()

    assert exporter.asked == 0


@pytest.mark.service("cc")
def test_an_old_gpu_has_it_asked(exporter: Exporter, tmp_path: Path) -> None:
    node = GpuNode(tmp_path, Scenario([gpu(A100, 0)]))
    exporter.tell(node.gpus[0].uuid, 0.5)
    source = DcgmExporter(exporter.url, lambda: lacks_activity(node.watch.snapshot()))
    node.watch = node.new_watch(outside=source)
    node.poll()

    assert lacks_activity(node.poll())
    wait_until(lambda: exporter.asked > 0 or source.states()[0].reason == "unasked")
    node.close()
