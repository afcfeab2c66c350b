"""The recording rules over the page of a real agent with fake GPUs, one of them divided, beside a dcgm-exporter."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import Scenario
from tests.unit.alerts.rule_world import RuleWorld, at, dcgm

pytestmark = pytest.mark.service("cc", "promtool")


def page_of_agent(directory: Path, library: Path) -> bytes:
    config = directory / "agent.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}, start_seconds: 60}}\n")
    command = [sys.executable, "-m", "kwhere", "agent", "--once", "--config.file", str(config)]
    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout


def test_an_agents_own_page_is_read_by_the_rules_case_ceems_397(tmp_path: Path) -> None:
    library = install_fake_nvml(tmp_path)
    whole, divided = gpu(A100, 0, watts=250), split(gpu(H100, 1, watts=300), ["3g.40gb", "1g.10gb"])
    Scenario([whole, divided]).write(library)
    world = RuleWorld(tmp_path)

    world.page(page_of_agent(tmp_path, library), cluster="c", node="n1")
    for instance in (("1", "3g.40gb"), ("2", "1g.10gb")):
        world.gauge("DCGM_FI_DEV_POWER_USAGE", 310, **dcgm(divided.uuid, instance=instance))

    here = {"cluster": "c", "node": "n1"}
    world.expect("gpu:power_watts", (at(whole.uuid, "kwhere"), 250), (at(divided.uuid, "kwhere"), 300))
    world.expect("node:gpu_power_watts", (here, 550))
    world.expect("node:gpus", (here, 2))
    world.expect(
        "sort(sum by (profile) (gpu_instance:share_ratio))",
        *(({"profile": profile}, share) for profile, share in (("1g.10gb", 1 / 7), ("3g.40gb", 3 / 7))),
    )
    world.check()
