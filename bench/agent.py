"""CPU and memory of a whole agent at one step per second with 100 units; one JSON line each. Root, a minute long."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from step import units

PROGRAM = """
import signal, sys, threading
from pathlib import Path
from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig

built = build_agent(AgentConfig.model_validate({"units": {"processes": sys.argv[2]}}), Path(sys.argv[1]))
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
built.agent.start()
print("runs", flush=True)
over.wait()
built.agent.stop()
"""
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return CPU time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mebibytes(pid: int) -> float:
    """Return resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main(count: int = 100, seconds: int = 65, processes: str = "off") -> None:
    """Measure and print."""
    with units(count), tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, state, processes],
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        while "runs" not in process.stdout.readline():
            pass
        time.sleep(3)
        began, cpu = time.monotonic(), cpu_seconds(process.pid)
        time.sleep(seconds)
        share = (cpu_seconds(process.pid) - cpu) / (time.monotonic() - began)
        resident = resident_mebibytes(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        print(json.dumps({"figure": "agent_cpu", "percent_of_core": round(100 * share, 2), "goal": 1, "units": count}))
        print(json.dumps({"figure": "agent_rss", "mebibytes": round(resident, 1), "goal": 64, "units": count}))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(*(int(word) for word in words[:2]), *words[2:3])
