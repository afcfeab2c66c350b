"""The program `dcgm-exporter` over fake GPUs, as its own process."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import Scenario

from kwhere.core.errors import Unavailable
from kwhere.transport.http import Answer, HttpClient

PROGRAM = (sys.executable, "-c", "from kwhere.cli.dcgm_exporter import main; main()")
WAIT_SECONDS = 60


@dataclass
class DcgmProcess:
    """A running exporter."""

    address: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def get(self, path: str) -> Answer:
        with HttpClient(f"http://{self.address}") as client:
            return client.get(path)

    def wait_for(self, text: str) -> str:
        """Return the page once it holds `text`."""
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in (page := self._page()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{text!r} never came:\n{page}\n{self.log.read_text()}"
            time.sleep(0.1)
        return page

    def wait_for_log(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def _page(self) -> str:
        try:
            return self.get("/metrics").text
        except Unavailable:
            return ""


def free_address() -> str:
    """Return an address on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def running_exporter(
    directory: Path, scenario: Scenario, *arguments: str, variables: Mapping[str, str] | None = None
) -> Iterator[DcgmProcess]:
    """Yield an exporter with these flags; it ends by SIGTERM and must end well."""
    library = install_fake_nvml(directory)
    scenario.write(library)
    address = free_address()
    log = directory / "log"
    command = [*PROGRAM, "-a", address, "--nvml-library", str(library), "-c", "1000", *arguments]
    environment = {**os.environ, "NODE_NAME": "node1", **(variables or {})}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
    try:
        yield DcgmProcess(address, process, log)
    finally:
        process.terminate()
        code = process.wait(30)
    assert code == 0, log.read_text()
