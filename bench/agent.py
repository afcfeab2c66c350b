"""CPU and memory of a whole agent, a step per second, 100 units, scraped; one JSON line each. Root, a minute."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.step import units

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


def url_of(process: "subprocess.Popen[str]") -> str:
    """Return where the agent answers, as its log says."""
    assert process.stderr is not None
    for line in process.stderr:
        if '"urls"' in line:
            return str(json.loads(line)["urls"][0])
    raise RuntimeError("the agent ended before it answered")


def main(count: int = 100, seconds: int = 65, processes: str = "off") -> None:
    """Measure and print; the agent is scraped every 15 s."""
    with units(count), tempfile.TemporaryDirectory() as state:
        (Path(state) / "kwhere.yaml").write_text(f"units: {{processes: {processes}}}\n")
        arguments = [
            "agent",
            "--state",
            state,
            "--config.file",
            f"{state}/kwhere.yaml",
            "--web.listen-address",
            "127.0.0.1:0",
        ]
        process = subprocess.Popen([sys.executable, "-m", "kwhere", *arguments], stderr=subprocess.PIPE, text=True)
        url = url_of(process)
        time.sleep(3)
        began, cpu = time.monotonic(), cpu_seconds(process.pid)
        while time.monotonic() - began < seconds:
            with urllib.request.urlopen(f"{url}metrics") as page:
                size = len(page.read())
            time.sleep(15)
        share = (cpu_seconds(process.pid) - cpu) / (time.monotonic() - began)
        resident = resident_mebibytes(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        more = {"units": count, "page_bytes": size}
        print(json.dumps({"figure": "agent_cpu", "percent_of_core": round(100 * share, 2), "goal": 1, **more}))
        print(json.dumps({"figure": "agent_rss", "mebibytes": round(resident, 1), "goal": 64, **more}))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(*(int(word) for word in words[:2]), *words[2:3])
