"""A long-running role (`kwhere agent`, `kwhere server`) as a process with a configuration file."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path


class RoleProcess:
    """A running `kwhere ROLE`; its log is read line by line."""

    def __init__(self, role: str, directory: Path, configuration: str) -> None:
        self.role = role
        self.file = directory / "kwhere.yaml"
        self.file.write_text(configuration)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwhere", role, "--config.file", self.file, "--state", directory / "state"],
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("KWHERE_")},
        )

        self.deadline = threading.Timer(90, self.process.kill)  # a log line that never comes ends the wait
        self.deadline.start()

    def read_until(self, event: str) -> str:
        """Return the first line of the log that holds `event`."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if event in line:
                return line
        raise AssertionError(f"the {self.role} ended without {event!r}")

    def url(self) -> str:
        """Return the address it answers at, once it does."""
        found = re.search(r"http://127[^\"]+", self.read_until(f"{self.role} answers"))
        assert found
        return found[0]

    def reload(self) -> None:
        """Ask it to take up its configuration file again."""
        self.process.send_signal(signal.SIGHUP)

    def end(self) -> None:
        """Kill it, whatever it does."""
        self.deadline.cancel()
        self.process.kill()
        self.process.communicate(timeout=10)
