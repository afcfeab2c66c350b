"""The program `dcgm-exporter` as a process: its pages, its counters file, a Prometheus and a dashboard before it."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests import kubelet as fake
from tests.e2e.dcgm_process import PROGRAM, DcgmProcess, free_address, running_exporter
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import LOST, Scenario
from tests.prometheus_server import PrometheusServer, running_prometheus

from kwhere.transport.http import HttpClient

pytestmark = [pytest.mark.service("cc"), pytest.mark.slow]

DASHBOARD_12239 = (
    'max(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'avg(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"})',
    'max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'sum(max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (gpu))',
    'max(DCGM_FI_DEV_SM_CLOCK{Hostname=~"$Hostname", gpu=~"$gpu"} * 1000000) by (Hostname, UUID, gpu)',
    'max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{Hostname=~"$Hostname", gpu=~"$gpu"})'
    " by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)",
    'max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{Hostname=~"$Hostname", gpu=~"$gpu"})'
    " by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)",
    'max(DCGM_FI_DEV_FB_USED{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)',
)
"""Every query of the public dashboard 12239 of grafana.com, as its panels have it."""
VARIABLES = {"$Hostname": "node1", "$gpu": "0|1"}
SCRAPE = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: dcgm
    static_configs: [{{targets: ["{address}"]}}]
"""


def query(server: PrometheusServer, expression: str) -> list[dict[str, Any]]:
    with HttpClient(server.url) as client:
        answer = client.get("/api/v1/query", params={"query": expression})
    result: list[dict[str, Any]] = json.loads(answer.body)["data"]["result"]
    return result


@pytest.mark.service("prometheus")
def test_every_query_of_the_dashboard_has_data(tmp_path: Path) -> None:
    scenario = Scenario([gpu(H100, 0, watts=400), split(gpu(H100, 1, watts=300), ["3g.40gb", "1g.10gb"])])

    with (
        running_exporter(tmp_path, scenario) as exporter,
        running_prometheus(SCRAPE.format(address=exporter.address)) as server,
    ):
        exporter.wait_for("DCGM_FI_PROF_GR_ENGINE_ACTIVE{")
        deadline = time.monotonic() + 60
        while not query(server, 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1"}'):
            assert time.monotonic() < deadline, query(server, "up")
            time.sleep(0.2)
        found = {expression: query(server, _with_variables(expression)) for expression in DASHBOARD_12239}
        hostnames = query(server, "group by (Hostname) (DCGM_FI_DEV_FB_FREE)")
        total = query(server, _with_variables(DASHBOARD_12239[3]))

    assert [expression for expression, result in found.items() if not result] == []
    assert [item["metric"] for item in hostnames] == [{"Hostname": "node1"}]
    assert float(total[0]["value"][1]) == 700


def test_pages_and_methods(tmp_path: Path) -> None:
    with running_exporter(tmp_path, Scenario([gpu(A100, 0)])) as exporter:
        page = exporter.wait_for("DCGM_FI_DEV_POWER_USAGE{")
        health, landing, missing = exporter.get("/health"), exporter.get("/"), exporter.get("/ledger")

    assert 'Hostname="node1"' in page
    assert (health.status, health.body) == (200, b"OK")
    assert health.headers["x-registry-available"] == "true"
    assert health.headers["server"].startswith("kwhere")
    assert b"/metrics" in landing.body
    assert missing.status == 404


def test_a_lost_gpu_leaves_the_other_case_gpu_94(tmp_path: Path) -> None:
    scenario = Scenario([gpu(A100, 0), gpu(A100, 1, watts=200)])
    scenario.gpus[0].fail("*", LOST)

    with running_exporter(tmp_path, scenario) as exporter:
        page = exporter.wait_for("DCGM_FI_DEV_POWER_USAGE{")

    assert 'DCGM_FI_DEV_POWER_USAGE{gpu="1"' in page
    assert 'DCGM_FI_DEV_POWER_USAGE{gpu="0"' not in page


def test_a_hung_gpu_delays_no_scrape(tmp_path: Path) -> None:
    scenario = Scenario([gpu(A100, 0).hang("DeviceGetPowerUsage"), gpu(A100, 1, watts=200)])

    with running_exporter(tmp_path, scenario) as exporter:
        exporter.wait_for('DCGM_FI_DEV_POWER_USAGE{gpu="1"')
        answers = [exporter.get("/metrics") for _ in range(5)]

    assert all(answer.status == 200 for answer in answers)
    assert min(answer.elapsed_seconds for answer in answers) < 1  # it hangs for good


def test_a_changed_counters_file_is_taken_up_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    counters = tmp_path / "counters.csv"
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, t\n")

    with running_exporter(tmp_path, Scenario([gpu(A100, 0)]), "-collectors", str(counters)) as exporter:
        before = exporter.wait_for("DCGM_FI_DEV_GPU_TEMP{")
        counters.write_text("DCGM_FI_DEV_NO_SUCH, gauge, t\n")
        exporter.wait_for_log("counters file is wrong")
        kept = exporter.get("/metrics").text
        counters.write_text("DCGM_FI_DEV_SM_CLOCK, gauge, t\n# more\n")
        exporter.process.send_signal(signal.SIGHUP)
        after = exporter.wait_for("DCGM_FI_DEV_SM_CLOCK{")

    assert "SM_CLOCK" not in before
    assert kept == before
    assert "GPU_TEMP" not in after


def test_a_library_that_is_not_there_is_named_in_the_log(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.so.1")
    command = [*PROGRAM, "--address", free_address(), "--nvml-library", nowhere]
    log = tmp_path / "log"
    with log.open("wb") as stream:
        exporter = DcgmProcess("", subprocess.Popen(command, stdout=stream, stderr=stream), log)
    try:
        exporter.wait_for_log(nowhere)
        exporter.wait_for_log("answers")
        assert "no GPU is shown until the library answers" in log.read_text()
    finally:
        exporter.process.terminate()
        exporter.process.wait(30)


def test_it_needs_less_memory_than_its_page_asks_for_case_users_66(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "dcgm-exporter.md").read_text()
    asked = re.search(r"requests: {cpu: 100m, memory: (\d+)Mi}", text)
    assert asked

    with running_exporter(tmp_path, Scenario([split(gpu(H100, n), ["1g.10gb"] * 7) for n in range(8)])) as exporter:
        exporter.wait_for("DCGM_FI_PROF_GR_ENGINE_ACTIVE{")
        used_kib = _with_children_kib(exporter.process.pid)

    assert len(used_kib) > 1
    assert sum(used_kib) < int(asked[1]) * 1024


def test_what_was_asked_for_and_is_not_here_is_told(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"

    with running_exporter(
        tmp_path, Scenario([gpu(A100, 0)]), "-d", "g:0,7,99", "--hpc-job-mapping-dir", str(nowhere)
    ) as exporter:
        exporter.wait_for_log("not on this node, and not shown: 7, 99")
        exporter.wait_for_log(f"{nowhere}: no such directory")
        page = exporter.wait_for("DCGM_FI_DEV_POWER_USAGE{")

    assert 'gpu="0"' in page


def test_variables_stand_for_flags_and_web_config_keeps_strangers_out(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n")
    web = tmp_path / "web.yaml"
    web.write_text(f"basic_auth_users: {{p: '{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}'}}\n")
    variables = {
        "DCGM_HPC_JOB_MAPPING_DIR": str(jobs),
        "DCGM_EXPORTER_USE_OLD_NAMESPACE": "true",
        "DCGM_EXPORTER_NO_HOSTNAME": "1",
        "DCGM_EXPORTER_DUMP_ENABLED": "true",
    }
    authorization = {"Authorization": "Basic cDpzZWNyZXQ="}

    with running_exporter(tmp_path, Scenario([gpu(A100, 0)]), "--kubernetes=false", variables=variables) as exporter:
        page = exporter.wait_for("DCGM_FI_DEV_POWER_USAGE{")
        exporter.wait_for_log("--dump-enabled")
    with running_exporter(tmp_path, Scenario([gpu(A100, 0)]), "--web-config-file", str(web)) as guarded:
        guarded.wait_for_log("answers")
        stranger = guarded.get("/metrics")
        with HttpClient(f"http://{guarded.address}") as client:
            known = client.get("/metrics", headers=authorization)

    [line] = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_POWER_USAGE{")]
    assert 'uuid="GPU-' in line
    assert 'hpc_job="4711"' in line
    assert "Hostname" not in line
    assert (stranger.status, known.status) == (401, 200)


def test_pods_are_those_that_kubelet_lists_also_on_instances_case_users_57(tmp_path: Path) -> None:
    device = split(gpu(H100, 0), ["3g.40gb", "1g.10gb"])
    with fake.serving(tmp_path) as kubelet:
        held = fake.devices("nvidia.com/mig-3g.40gb", device.migs[0].uuid)
        kubelet.pods = [fake.pod("ml", "train", fake.container("main", held))]
        flags = ("-k", "--pod-resources-kubelet-socket", str(kubelet.path))
        with running_exporter(tmp_path, Scenario([device]), *flags) as exporter:
            page = exporter.wait_for('pod="train"')

    lines = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{")]
    assert ['container="main",namespace="ml",pod="train"' in line for line in lines] == [True, False]


@contextmanager
def running_agent(place: Path, scenario: Scenario) -> Iterator[DcgmProcess]:
    """An agent with that face besides its own."""
    library = install_fake_nvml(place)
    scenario.write(library)
    face, own = free_address(), free_address()
    config = place / "agent.yaml"
    config.write_text(
        f"gpu: {{nvml_library: {library}, start_seconds: 60}}\n"
        f"dcgm_exporter: {{enabled: true, address: '{face}'}}\n"
        f"web: {{listen_addresses: ['{own}']}}\n"
    )
    command = [sys.executable, "-m", "kwhere", "agent", "--config.file", str(config), "--state", str(place / "s")]
    log = place / "log"
    with log.open("wb") as stream:
        agent = DcgmProcess(face, subprocess.Popen(command, stdout=stream, stderr=stream), log)
    try:
        yield agent
    finally:
        agent.process.terminate()
        agent.process.wait(30)


def test_an_agent_with_many_gpus_needs_less_memory_than_its_pod_asks_for_case_users_66(tmp_path: Path) -> None:
    """What it asks for must hold for the largest node; its limit, and systemd's, are for bursts."""
    pod = resources.files("kwhere.manifests").joinpath("agent.yaml").read_text()
    asked = re.search(r"requests: {cpu: 20m, memory: (\d+)Mi}\n +limits: {memory: (\d+)Mi}", pod)
    unit = (Path(__file__).parents[2] / "packaging/systemd/kwhere-agent.service").read_text()
    bounds = re.search(r"^MemoryHigh=(\d+)M\nMemoryMax=(\d+)M$", unit, re.MULTILINE)
    assert asked
    assert bounds

    with running_agent(tmp_path, Scenario([split(gpu(H100, n), ["1g.10gb"] * 7) for n in range(8)])) as agent:
        agent.wait_for("DCGM_FI_PROF_GR_ENGINE_ACTIVE{")
        used_kib = _with_children_kib(agent.process.pid)

    assert len(used_kib) > 1
    assert sum(used_kib) < int(asked[1]) * 1024 < int(bounds[1]) * 1024 < int(bounds[2]) * 1024
    assert int(asked[2]) >= 2 * int(asked[1])


def test_a_driver_without_a_gpu_is_no_fault_case_users_62(tmp_path: Path) -> None:
    """`No devices found.`: a page without GPUs, and neither an end nor a complaint."""
    with running_exporter(tmp_path, Scenario([])) as exporter:
        exporter.wait_for_log("answers")
        answer = exporter.get("/metrics")

    assert answer.status == 200
    assert "DCGM_FI_DEV_" not in answer.text
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_agent_serves_the_face_where_it_is_turned_on(tmp_path: Path) -> None:
    with running_agent(tmp_path, Scenario([gpu(A100, 0)])) as agent:
        page = agent.wait_for("DCGM_FI_DEV_POWER_USAGE{")
    code = agent.process.returncode

    assert 'modelName="NVIDIA A100-SXM4-40GB"' in page
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-d", "f:1"], "--devices: no range can be specified with the flex option"),
        (["--collect-interval", "1"], "--collect-interval: input should be greater than or equal to 100 milliseconds"),
        (["-x", "10"], "--xid-count-window-size: input should be greater than or equal to 1000 milliseconds"),
        (["--kubernetes-gpu-id-type", "x"], "--kubernetes-gpu-id-type"),
        (["--log-format", "xml"], "--log-format"),
        (["--kubernetes-label-prefix", "__x"], "--kubernetes-label-prefix: expected the beginning of a label's name"),
        (["--no-such"], "--no-such"),
        (["-f", "/no/such.csv"], "/no/such.csv: cannot be read"),
        (["--gpu-bind-unbind-poll-interval", "1"], "expected a duration"),
    ],
)
def test_wrong_values_are_refused(arguments: list[str], words: str) -> None:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert words in done.stderr


def _with_children_kib(pid: int) -> list[int]:
    """Return the resident memory of a process and of each of its children."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return [_resident_kib(process) for process in (str(pid), *children)]


def _resident_kib(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _with_variables(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression
