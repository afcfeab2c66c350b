"""`systemctl` where systemd is not PID 1: starts a unit's ExecStart as its user, with its capabilities; sends SIGHUP.

Called as `python hand_systemd.py ROOT enable --now NAME` or `… reload NAME`; ROOT holds `units/` and `var/lib/`.
"""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path


def unit_settings(path: Path) -> dict[str, str]:
    """Return a unit's settings; of one that stands twice the last."""
    lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in lines}


def start(root: Path, name: str) -> None:
    """Start a unit and keep its process id; what it says goes to `NAME.log`."""
    unit = unit_settings(root / "units" / f"{name}.service")
    user, state = unit["User"], root / "var/lib" / unit["StateDirectory"]
    state.mkdir(parents=True, exist_ok=True)
    subprocess.run(["chown", user, str(state)], check=True)
    state.chmod(0o700)
    words = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
    capabilities = ",".join(
        f"+{word.lower().removeprefix('cap_')}" for word in unit.get("AmbientCapabilities", "").split()
    )
    if capabilities:
        words += [f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"]
    command = (
        unit["ExecStart"].replace("/opt/kwhere", f"{root}/opt/kwhere").replace("/etc/kwhere", f"{root}/etc/kwhere")
    )
    with (root / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*words, *shlex.split(command)],
            env={"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(state)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (root / f"{name}.pid").write_text(str(process.pid))


def main(root: Path, verb: str, name: str) -> None:
    """Do what systemctl would."""
    if verb == "reload":
        os.kill(int((root / f"{name}.pid").read_text()), signal.SIGHUP)
    else:
        start(root, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[-1])
