"""AMD's names, from recorded hosts through the real face."""

import subprocess

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.hosts.build import HOSTS
from tests.recorded_hosts import open_host

from kwhere.apps.agent import BuiltAgent, build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.apps.amd_exporter import amd_faces
from kwhere.apps.gpus import open_gpus
from kwhere.core.errors import ConfigError
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.graphics.amd_names import names
from kwhere.graphics.amd_names_settings import AmdExporterSettings

Series = dict[tuple[str, str, str], float]
"""By name, gpu_id and gpu_partition_id."""
HOSTS_OF_AMD = ("mi250x-slurm", "mi300x-spx", "mi300x-cpx", "radeon-and-arc")


def built(name: str) -> BuiltAgent:
    """Return an agent over a recorded host that has made its two steps."""
    host = HOSTS / name
    paths = {"procfs": host / "proc", "sysfs": host / "sys", "cgroupfs": host / "cgroup"}
    agent = build_agent(AgentConfig.model_validate({"path": paths, "agent": {"node": "n1"}}), None)
    agent.once(1.0)
    return agent


def page(name: str, **settings: object) -> str:
    """Return the page of a recorded host, scraped."""
    agent = built(name)
    (face,) = amd_faces(
        AmdExporterSettings.model_validate({"enabled": True, "address": "127.0.0.1:0", **settings}),
        agent.gpus,
        agent.agent.totals,
        "n1",
    )
    face.start()
    try:
        answer = httpx.get(f"{face.urls[0]}metrics")
        assert httpx.get(f"{face.urls[0]}elsewhere").status_code == 404
    finally:
        face.stop()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


def series(text: str) -> tuple[Series, dict[tuple[str, str], dict[str, str]]]:
    """Return values, and the labels of each GPU or partition; every series comes once."""
    values: Series = {}
    labels: dict[tuple[str, str], dict[str, str]] = {}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples)
    for sample in samples:
        place = (sample.labels.get("gpu_id", ""), sample.labels.get("gpu_partition_id", ""))
        values.setdefault((sample.name, *place), sample.value)
        labels[place] = sample.labels
    return values, labels


def test_an_mi300x_tells_the_power_of_now() -> None:
    values, labels = series(page("mi300x-spx"))

    assert values["gpu_package_power", "0", "0"] == 718
    assert values["gpu_power_usage", "1", "0"] == 140
    assert values["gpu_energy_consumed", "0", "0"] == 1_007_170_000_000
    assert values["gpu_junction_temperature", "0", "0"] == 62
    assert values["gpu_total_vram", "0", "0"] == 192 * 1024
    assert values["pcie_speed", "0", "0"] == 16
    assert values["gpu_health", "1", "0"] == 1
    assert values["gpu_nodes_total", "", ""] == 2
    assert ("gpu_average_package_power", "0", "0") not in values
    assert ("gpu_edge_temperature", "0", "0") not in values
    assert labels["0", "0"] | {"job_id": "500"} == labels["0", "0"]
    assert "job_id" not in labels["1", "0"]
    assert labels["0", "0"]["gpu_compute_partition_type"] == "spx"
    assert labels["0", "0"]["hostname"] == "n1"


def test_an_mi250x_tells_a_mean_and_its_second_die_nothing_case_gpu_18() -> None:
    values, labels = series(page("mi250x-slurm"))

    assert values["gpu_average_package_power", "0", "0"] == 465
    assert ("gpu_package_power", "0", "0") not in values
    assert ("gpu_average_package_power", "1", "0") not in values
    assert (values["gpu_edge_temperature", "0", "0"], values["gpu_junction_temperature", "0", "0"]) == (45, 58)
    assert labels["1", "0"]["job_id"] == "500"


def test_partitions_have_their_memory_and_the_first_has_the_package() -> None:
    values, labels = series(page("mi300x-cpx"))

    assert [place for name, *place in values if name == "gpu_package_power"] == [["0", "0"]]
    assert [values["gpu_used_vram", "0", str(n)] for n in range(3)] == [18 * 1024, 6 * 1024, 0]
    assert values["gpu_gfx_busy_instantaneous", "0", "1"] == 50
    assert [labels["0", str(n)].get("job_id") for n in range(3)] == ["500", "501", None]
    assert labels["0", "7"]["gpu_memory_partition_type"] == "nps4"


def test_spellings_of_newer_releases() -> None:
    text = page("radeon-and-arc", prefix="amd_", short_clock_types=True)

    assert 'amd_gpu_clock{gpu_id="0"' in text
    assert 'clock_type="system"' in text
    assert "\ngpu_" not in text
    assert 'clock_type="GPU_CLOCK_TYPE_SYSTEM"' in page("radeon-and-arc")


def test_only_gpus_of_amd_are_shown() -> None:
    assert "Arc" not in page("radeon-and-arc")
    assert "gpu_health" not in page("intel-flex-max")


def test_every_name_is_one_of_those_announced() -> None:
    shown = {line.split()[2] for host in HOSTS_OF_AMD for line in page(host).splitlines() if line.startswith("# TYPE")}

    assert shown <= set(names())
    assert len(shown) > 15


@pytest.mark.service("promtool")
@pytest.mark.parametrize("host", HOSTS_OF_AMD)
def test_promtool_reads_the_page(host: str) -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=page(host).encode(), capture_output=True, check=False)

    assert done.returncode in (0, 3), done.stderr.decode()  # 3: it reads, and its taste in names is another
    assert b"error while linting" not in done.stderr


def test_it_is_off_unless_asked_for_and_says_which_address_is_wrong() -> None:
    gpus = open_gpus(GpuSettings(), open_host("mi300x-spx"))
    assert amd_faces(AmdExporterSettings(), gpus, lambda: None, "n1") == []

    (face,) = amd_faces(AmdExporterSettings(enabled=True, address="nowhere"), gpus, lambda: None, "n1")
    with pytest.raises(ConfigError, match="amd_exporter"):
        face.start()
