"""`kwhere rules`: what it prints passes promtool and a real Prometheus; names in either kind of quotes."""

import subprocess
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.prometheus_server import running_prometheus

from kwhere.cli.main import run_root
from kwhere.cli.rules import given_metric
from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span
from kwhere.reports.figures import utc_of
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import ScrapedSample, Selector

UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run_root(["rules", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.service("promtool")
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--exporter", "kwhere", "--exporter", "nvidia_smi", "--interval", "15s", "--window", "1m30s"),
        ("--exporter", "amd"),
        ("--cluster-label", "site", "--node-label", "host", "--metric", "power_watts=rack:gpu_kilowatts*1e3"),
        ("--metric", 'power_watts=`my.gpu "power"`', "--metric", "sm_active_ratio='a.b' * 0.01"),
    ],
)
def test_what_is_printed_passes_promtool_case_users_61(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.yml").write_text(printed(capsys, *options))

    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "duplicate" not in done.stdout


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("power_watts=`my.gpu power`", '{__name__="my.gpu power",uuid!=""}'),
        ('power_watts="my.gpu\\"power"', '{__name__="my.gpu\\"power",uuid!=""}'),
        ("power_watts='my.gpu'*0.001", '{__name__="my.gpu",uuid!=""}'),
        ("power_watts=plain_name * 2", 'plain_name{uuid!=""}'),
    ],
)
def test_a_name_in_either_kind_of_quotes_is_one_selector_case_ceems_523(
    written: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = yaml.safe_load(printed(capsys, "--metric", written))["groups"]

    (rule,) = [each for each in group["rules"] if each.get("labels") == {"source": "given"}]
    assert text in rule["expr"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", "five"), "--window: expected a duration"),
        (("--window", "0s"), "--window: expected more than nothing"),
        (("--interval", "1.5m"), "--interval: expected a duration"),
        (("--node-label", "host.name"), "--node-label: expected letters"),
        (("--node-label", "cluster"), "--node-label: expected another label"),
        (("--metric", "power_watts"), "--metric: expected QUANTITY=NAME"),
        (("--metric", "speed=a"), "--metric: expected one of power_watts"),
        (("--metric", "power_watts=`a"), "--metric power_watts: expected a name"),
        (("--metric", "power_watts=a*0"), "a factor above 0"),
        (("--metric", "power_watts=a*1e"), "a number after *"),
        (("--exporter", "other"), "'other' is not one of"),
    ],
)
def test_what_cannot_be_is_told(options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["rules", *options]) == 2

    assert words in capsys.readouterr().err


@given(st.text(max_size=40), st.sampled_from(["", "power_watts="]))
def test_any_text_is_a_metric_or_refused(text: str, before: str) -> None:
    try:
        quantity, named = given_metric(before + text)
    except ConfigError:
        return
    assert quantity == "power_watts"
    assert named.metric
    assert named.factor > 0


@pytest.mark.service("prometheus", "promtool")
def test_a_real_prometheus_records_what_the_rules_say_case_ceems_397(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.yml").write_text(printed(capsys, "--interval", "1s"))
    configuration = f"global: {{scrape_interval: 1h}}\nrule_files: ['{tmp_path / 'rules.yml'}']\n"
    labels = {"cluster": "c", "UUID": UUID, "Hostname": "n1", "modelName": "NVIDIA A100-SXM4-40GB", "job": "dcgm"}

    with running_prometheus(configuration) as server:
        for number, profile in (("1", "3g.20gb"), ("2", "4g.20gb")):
            own = {**labels, "GPU_I_ID": number, "GPU_I_PROFILE": profile, "hpc_job": f"4{number}"}
            pairs = tuple(sorted(own.items()))
            server.write([ScrapedSample("DCGM_FI_DEV_POWER_USAGE", pairs, time.time(), 140.0)])
        store = PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=1))
        found = wait_for(store, "job:gpu_power_watts", 2)
        (power,) = wait_for(store, "gpu:power_watts", 1)
        store.close()

    assert {series["hpc_job"]: round(value, 6) for series, value in found} == {"41": 60.0, "42": 80.0}
    assert power == ({"cluster": "c", "node": "n1", "uuid": UUID, "source": "dcgm"}, 140.0)


def wait_for(store: PrometheusSeriesStore, name: str, count: int) -> list[tuple[dict[str, str], float]]:
    """Return the newest of so many series of a name, once they are all recorded."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now = time.time_ns()
        span = Span(utc_of(now - 60 * 10**9), utc_of(now + 10**9))
        found = store.select(Selector(name, {}), span, 1)
        if len(found) == count:
            return [(dict(series.labels), series.values[-1]) for series in found]
        time.sleep(0.05)
    raise AssertionError(f"{name}: not recorded")
