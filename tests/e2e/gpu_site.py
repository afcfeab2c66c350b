"""`kwhere up` on a node with eight GPUs: the fake library, real processes, SLURM's cgroups and prolog files.

GPUs 0 to 3 are job 4242's: three busy, one held back by its power cap, one held and never used. GPU 4 is divided:
3g.40gb for job 4243, 2g.20gb for job 4244 that runs nothing, 1g.10gb for nobody. GPU 5 is shared by jobs 4245 and 4246,
and the driver does not tell its processes.
GPU 6 is free. GPU 7, an A100, falls off the bus with XID 79.

python -m tests.e2e.gpu_site DIRECTORY [PORT]: serves it until Ctrl-C.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.role_processes import free_address
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import GIB, LOST, NO_PERMISSION, FakeGpu, Ramp, Scenario
from tests.unit.discovery.fake_cgroups import FakeCgroups

WAIT_SECONDS = 120
JOBS = ("4242", "4243", "4244", "4245", "4246")
PROLOG = {"0": "4242", "1": "4242", "2": "4242", "3": "4242", "4.1": "4243", "4.2": "4244", "5": "4245\n4246"}
BUSY: dict[int, tuple[int, int, float]] = {0: (97, 640, 71.0), 1: (95, 610, 69.0), 2: (31, 260, 20.0)}
"""Percent busy, watts, and tensor activity of job 4242's GPUs."""
POWER_CAP = 0x4


class GpuSite:
    """Start it, look, stop it."""

    def __init__(self, directory: Path, address: str | None = None) -> None:
        self.directory = directory
        self.address = address or free_address()
        self.library = install_fake_nvml(directory)
        self.scenario = Scenario([gpu(H100, n) for n in range(7)] + [gpu(A100, 7)])
        self._jobs: dict[str, subprocess.Popen[bytes]] = {}
        self._up: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def token(self) -> str:
        return (self.directory / "state" / "token").read_text().strip()

    def start(self) -> None:
        """Start the jobs, then kwhere; GPU 7 is lost as soon as it was seen."""
        self._start_jobs()
        self._load()
        self.scenario.write(self.library)
        command = [sys.executable, "-m", "kwhere", "up", "--no-open", "--listen", self.address]
        command += ["--state", str(self.directory / "state"), "--config.file", str(self._configure())]
        with (self.directory / "up.log").open("ab") as log:
            self._up = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait_until(lambda: self.held("4242") == 4 and self.held("4246") == 1)
        self.scenario.xid(7, 79)
        self.scenario.write(self.library)
        self.wait_until(lambda: "kwhere_gpu_xid_errors_total{" in self.metrics())
        self.scenario.gpus[7].fail("*", LOST)
        self.scenario.write(self.library)

    def stop(self) -> None:
        """End everything that was started."""
        if self._up is not None:
            self._up.terminate()
            self._up.wait(30)
        for process in self._jobs.values():
            process.kill()
            process.wait()

    def get(self, path: str) -> Any:
        """Return what the API answers."""
        request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def metrics(self) -> str:
        """Return what the agent shows."""
        log = (self.directory / "up.log").read_text()
        agent = next(json.loads(line)["urls"][0] for line in log.splitlines() if '"agent answers"' in line)
        with urllib.request.urlopen(f"{agent}metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def unit(self, job: str) -> Any:
        """Return a job from the API."""
        return self.get(f"/api/v1/units/local/slurm/{job}")

    def held(self, job: str) -> int:
        """Return how many GPUs and instances the account knows of a job."""
        return len(self.unit(job)["gpus"])

    def node(self) -> str:
        """Return the node's name."""
        return str(self.get("/api/v1/nodes")["items"][0]["node"])

    def wait_until(self, holds: Any) -> None:
        """Wait for the account or the store of series to have caught up."""
        deadline, last = time.monotonic() + WAIT_SECONDS, "never asked"
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
                last = "not yet"
            except (OSError, LookupError) as error:  # no answer yet, or the unit is not there yet
                last = repr(error)
            time.sleep(0.5)
        raise AssertionError(f"never held ({last})\n{(self.directory / 'up.log').read_text()[-3000:]}")

    def _start_jobs(self) -> None:
        tree = FakeCgroups(self.directory)
        for job in JOBS:
            name = {"SLURM_JOB_ID": job, "SLURM_JOB_NAME": f"job {job}"}
            self._jobs[job] = subprocess.Popen(["sleep", "3600"], env={**os.environ, **name})
            tree.put(f"/system.slice/slurmstepd.scope/job_{job}", procs=f"{self._jobs[job].pid}\n")
        directory = self.directory / "prolog"
        directory.mkdir()
        for file, text in PROLOG.items():
            (directory / file).write_text(f"{text}\n")

    def _configure(self) -> Path:
        nowhere = str(self.directory / "none")
        path = self.directory / "kwhere.yaml"
        mapping = {
            "prolog_dirs": [str(self.directory / "prolog")],
            "kubelet_socket": nowhere,
            "gres_conf": [nowhere],
            "oar_dirs": [nowhere],
            "process_numbers": "ours",
            "refresh_seconds": 1,
        }
        library = {"nvml_library": str(self.library), "start_seconds": 60, "mapping": mapping}
        tree = {
            "path": {"cgroupfs": str(self.directory / "cgroup"), "sysfs": "/sys"},
            "gpu": {**library, "medium_seconds": 2, "slow_seconds": 2},
            "site": {"zone": "FR"},
        }
        path.write_text(json.dumps(tree))
        return path

    def _load(self) -> None:
        gpus = self.scenario.gpus
        for n, (percent, watts, tensor) in BUSY.items():
            self._work(gpus[n], "4242", percent, watts, tensor)
        gpus[0].facts |= {
            "CurrentClocksEventReasons": POWER_CAP,
            "CurrentClocksThrottleReasons": POWER_CAP,
            "fi.74.0": Ramp(0, 0.23e9),
            "ClockInfo.1": 1605,
        }
        gpus[3].power(71)
        split(gpus[4], ["3g.40gb", "2g.20gb", "1g.10gb"]).power(290)
        gpus[4].process(self._jobs["4243"].pid, 21 * GIB, gi=1, ci=0)
        gpus[4].migs[0].used_bytes = 21 * GIB
        gpus[4].migs[0].facts |= {"gpm.1": 88.0, "gpm.2": 80.0, "gpm.5": 44.0}
        self._work(gpus[5], "4245", 78, 420, 12.0)
        for kind in ("Compute", "Graphics", "MPSCompute"):
            gpus[5].fail(f"DeviceGet{kind}RunningProcesses", NO_PERMISSION)
        gpus[5].fail("DeviceGetProcessUtilization", NO_PERMISSION)
        gpus[6].power(68)

    def _work(self, device: FakeGpu, job: str, percent: int, watts: int, tensor: float) -> None:
        device.power(watts).memory(int(percent / 100 * 70) * GIB)
        device.process(self._jobs[job].pid, int(percent / 100 * 70) * GIB)
        device.facts |= {"UtilizationRates": f"{percent} {percent // 2}"}
        device.facts |= {"gpm.1": float(percent), "gpm.2": percent * 0.9, "gpm.5": tensor}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    site = GpuSite(place, f"127.0.0.1:{sys.argv[2]}" if len(sys.argv) > 2 else None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        site.start()
        sys.stdout.write(f"{site.url}\n")
        sys.stdout.flush()
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        site.stop()
