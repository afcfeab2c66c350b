"""docs/jobs.md word for word: each `bash` block runs against a real `kwhere up`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.test_up import running

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.slow
def test_each_step_of_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    place = tmp_path / "user"
    place.mkdir()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kwhere").write_text(f'#!/bin/sh\nexec {sys.executable} -m kwhere "$@"\n')
    (programs / "kwhere").chmod(0o755)
    with running(tmp_path / "state"):
        environ = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "USER": user,
            "KWHERE_STATE": str(tmp_path / "state"),
            "KWHERE_CONFIG_FILE": os.devnull,
        }
        script = "set -euo pipefail\n" + "\n".join(f"echo '== {at}'\n{block}" for at, block in enumerate(BLOCKS))

        done = subprocess.run(
            ["bash", "-c", script], cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=120
        )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    parts = re.split(r"^== \d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(parts) == len(BLOCKS) == 6
    assert user in parts[2]
    assert "        Energy: " in parts[3]
    unit = json.loads((place / "job.json").read_text())
    assert f"Unit: {unit['manager']} {unit['unit']}" in parts[3]
    assert (place / "jobs.csv").read_text().startswith("cluster,manager,unit,run,")
    assert "energy_joules" in parts[4]
    assert "PROJECT" in parts[5]
