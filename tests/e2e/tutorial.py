"""A page of docs/ that is followed word for word: its fenced blocks, run or written where they say, on a stage.

What the page calls by the names of a site is called by those of the stage: directories, addresses, users, ids.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(sh|yaml|ini)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"# (/\S+)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, and its language."""

    kind: str
    text: str


def steps_of(page: str) -> Mapping[str, list[Block]]:
    """Return the blocks of each step, by its number; those before the first are none of it."""
    parts = re.split(r"^## (\d+)\. .*\n", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
    return {
        number: [Block(kind, block) for kind, block in _BLOCK.findall(text)]
        for number, text in zip(parts[1::2], parts[2::2], strict=True)
    }


class Stage:
    """A place that stands for the root of a site's machines."""

    def __init__(self, root: Path, names: Mapping[str, str], environ: Mapping[str, str]) -> None:
        """`names` are what the page says and what is meant here."""
        self.root = root
        self.names = dict(names)
        for name in ("opt/kwhere/bin", "etc", "units", "usr/local/bin", "var/lib"):
            (root / name).mkdir(parents=True, exist_ok=True)
        root.chmod(0o755)
        self.environ = {
            **os.environ,
            "PATH": f"{root}/usr/local/bin:{os.environ['PATH']}:/usr/sbin",
            "KWHERE_CONFIG_FILE": f"{root}/etc/kwhere/kwhere.yaml",
            **environ,
        }
        self._program("opt/kwhere/bin/kwhere", f'PYTHONPATH={ROOT}/src:{_packages()} exec {_python()} -m kwhere "$@"')
        self._program(
            "usr/local/bin/systemctl",
            f'exec {sys.executable} {Path(__file__).with_name("hand_systemd.py")} {root} "$@"',
        )

    def say(self, text: str) -> str:
        """Return what a page says in the stage's names."""
        for theirs in sorted(self.names, key=len, reverse=True):
            text = text.replace(theirs, self.names[theirs])
        return text

    def follow(self, *blocks: Block) -> str:
        """Do what blocks say; return what the commands printed."""
        return "".join(self._do(block) for block in blocks)

    def look(self, block: Block, is_right: Callable[[str], bool], seconds: float = 60.0) -> str:
        """Repeat a command until it shows what it should, as a person would."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):
                shown = self._do(block)
                if is_right(shown):
                    return shown
            assert time.monotonic() < until, f"{block.text}\n{self._last}\n{self.logs()}"
            time.sleep(0.5)

    def logs(self) -> str:
        """Return the ends of what services said."""
        return "".join(path.read_text()[-3000:] for path in self.root.glob("*.log"))

    def end(self) -> None:
        """End the services."""
        for path in self.root.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(path.read_text()), signal.SIGTERM)

    def _do(self, block: Block) -> str:
        text = self.say(block.text)
        if block.kind != "sh":
            place = _PLACE.match(text)
            assert place is not None, f"this block does not say which file it is:\n{block.text}"
            path = Path(place[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if block.kind == "ini" else ""
            path.write_text(before + text)
            return ""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self._last = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == 0, f"{text}\n{self._last}\n{self.logs()}"
        return done.stdout

    _last = ""

    def _program(self, name: str, line: str) -> None:
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)


def _packages() -> str:
    import structlog

    return str(Path(structlog.__file__).parents[1])


def _python() -> str:
    """Return a Python that the services' users may run: one in root's home directory is none."""
    system = "/usr/bin/python3"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = subprocess.run([system, "--version"], capture_output=True, text=True, check=False).stdout
    return system if said.startswith(f"Python {ours}.") else sys.executable
