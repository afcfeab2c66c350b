"""Seconds from the command to what a newcomer waits for: `--help`, and the first watts on the API; JSON lines."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from statistics import median
from urllib.request import Request, urlopen

KWHERE = [sys.executable, "-m", "kwhere"]


def seconds_to_help() -> float:
    """Return the seconds that `kwhere --help` takes."""
    began = time.monotonic()
    subprocess.run([*KWHERE, "--help"], capture_output=True, check=True)
    return time.monotonic() - began


def seconds_to_watts() -> float:
    """Return the seconds from `kwhere up` on an empty state to a unit with watts."""
    with tempfile.TemporaryDirectory() as state:
        began = time.monotonic()
        process = subprocess.Popen(
            [*KWHERE, "up", "--no-open", "--state", state, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "KWHERE_CONFIG_FILE": os.devnull},
        )
        assert process.stdout is not None
        match = re.search(r"(http://\S+)/\?token=(\S+)", process.stdout.readline())
        assert match is not None
        try:
            while not has_watts(match[1], match[2]):
                time.sleep(0.05)
            return time.monotonic() - began
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def has_watts(url: str, token: str) -> bool:
    """Return whether a unit with watts is listed; a server that still starts is a no."""
    request = Request(f"{url}/api/v1/units?sort=-power_watts", headers={"Authorization": f"Bearer {token}"})
    try:
        with urlopen(request, timeout=10) as answer:
            return any(item["power_watts"] for item in json.load(answer)["items"])
    except OSError:
        return False


def main() -> None:
    """Print both figures, medians."""
    figures = (("help", seconds_to_help, 9, 0.15), ("first_watts", seconds_to_watts, 3, 5.0))
    for name, measure, runs, goal in figures:
        print(json.dumps({"figure": name, "seconds": round(median(measure() for _ in range(runs)), 3), "goal": goal}))


if __name__ == "__main__":
    main()
