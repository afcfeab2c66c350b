"""Whole pages, worked out by hand from the documented format and the scenes' numbers."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fake_nvml.scenario import Scenario
from tests.unit.dcgm.gpu_scenes import GOLDEN, a100_mig_node, a100_node, h100_mig_node, look, page_of, running

from kwhere.dcgm.watching import Watcher

SCENES = {"a100": a100_node, "a100-mig": a100_mig_node, "h100-mig": h100_mig_node}


@pytest.mark.service("cc")
@pytest.mark.parametrize("name", SCENES)
def test_page_is_the_documented_one(name: str, tmp_path: Path) -> None:
    scene: Callable[[], Scenario] = SCENES[name]
    with running(tmp_path, scene()) as node:
        watcher = Watcher()

        page = page_of(look(node, watcher), watcher)

    assert page == (GOLDEN / f"dcgm-{name}.prom").read_text()


@pytest.mark.parametrize("name", SCENES)
def test_golden_is_read_by_a_parser_and_has_no_series_twice_case_gpu_82_85(name: str) -> None:
    families = list(text_string_to_metric_families((GOLDEN / f"dcgm-{name}.prom").read_text()))

    series = [(one.name, tuple(sorted(one.labels.items()))) for family in families for one in family.samples]

    assert len(series) == len(set(series)) > 20


@pytest.mark.service("promtool")
@pytest.mark.parametrize("name", SCENES)
def test_golden_is_read_by_promtool_case_gpu_82(name: str) -> None:
    page = (GOLDEN / f"dcgm-{name}.prom").read_bytes()

    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)

    assert done.returncode in (0, 3), done.stderr.decode()  # 3: it reads, and its taste in names is another
    assert b"error while linting" not in done.stderr
