"""A whole agent finds out who holds its GPUs: fake library, real processes and their environments, real gRPC."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fake_nvml.gpus import A100, gpu
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import Scenario
from tests.kubelet import container, devices, pod, serving
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.apps.agent import BuiltAgent, build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.sampling.gpu_shown import UnitGpu

pytestmark = pytest.mark.service("cc")
DEADLINE_SECONDS = 60
POD_UID = "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa"


@contextmanager
def agent(root: Path, **mapping: Any) -> Iterator[BuiltAgent]:
    """Run no thread of the sampler's: the test steps. Processes are this machine's, cgroups the test's."""
    library = install_fake_nvml(root)
    Scenario([gpu(A100, 0, watts=300), gpu(A100, 1, watts=100)]).write(library)
    nowhere = root / "none"
    places = {"prolog_dirs": [nowhere], "kubelet_socket": nowhere, "gres_conf": [nowhere], "oar_dirs": [nowhere]}
    config = AgentConfig.model_validate(
        {
            "path": {"procfs": "/proc", "sysfs": root / "sys", "cgroupfs": root / "cgroup"},
            "units": {"pod_log_dir": root / "pods"},
            "gpu": {
                "nvml_library": str(library),
                "start_seconds": DEADLINE_SECONDS,
                "mapping": {**places, "process_numbers": "ours", **mapping},
            },
        }
    )
    built = build_agent(config, None)
    try:
        yield built
    finally:
        for close in built.agent.close:
            close()


def held(built: BuiltAgent, enough: Callable[[dict[str, tuple[UnitGpu, ...]]], bool]) -> dict[str, tuple[UnitGpu, ...]]:
    """Step until the units hold what they should, and return what each holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        built.agent.sampler.step()
        totals = built.agent.totals()
        assert totals is not None
        found = {unit.key.unit: unit.gpus for unit in totals.units if unit.gpus}
        if enough(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


@contextmanager
def working(**environment: str) -> Iterator[int]:
    """Run a process that does nothing on any GPU."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, **environment})
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_case_gpu_61_case_slurm_job_exporter_65_a_job_that_runs_nothing_holds_its_gpu(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    job = "/system.slice/slurmstepd.scope/job_42"
    with working(SLURM_JOB_ID="42", SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="0") as pid, agent(tmp_path) as built:
        tree.put(job, procs=f"{pid}\n")

        found = held(built, lambda units: "42" in units and units["42"][0].held_ns > 0)

    (one,) = found["42"]
    assert (one.index, one.source, one.share_ratio) == (1, "environ", 1.0)
    assert one.busy_ns == 0
    assert one.held_idle_ns == one.held_ns > 0


def test_a_pod_is_found_by_kubelet_and_its_log_directory(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    (tmp_path / "pods" / f"ml_train_{POD_UID}").mkdir(parents=True)
    path = f"/kubepods.slice/kubepods-pod{POD_UID.replace('-', '_')}.slice"
    with serving(tmp_path) as kubelet, working() as pid, agent(tmp_path, kubelet_socket=str(kubelet.path)) as built:
        tree.put(f"{path}/cri-containerd-{'a' * 64}.scope", procs=f"{pid}\n")
        kubelet.pods = [pod("ml", "train", container("main", devices("nvidia.com/gpu", gpu(A100, 0).uuid)))]

        found = held(built, lambda units: POD_UID in units)

    assert [(one.index, one.source) for one in found[POD_UID]] == [(0, "pod_resources")]
