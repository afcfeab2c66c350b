"""A browser on `kwhere up` over eight fake GPUs: the real agent, child, mapping, ledger, server and pages."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.e2e.browser import MODES, PICTURES, running_browser, text_faults, visit
from tests.e2e.gpu_site import GpuSite

pytestmark = [pytest.mark.service("chromium"), pytest.mark.service("cc"), pytest.mark.slow]

DARK_NARROW = {**MODES["narrow"], "color_scheme": "dark"}
LOOKS = {**{name: MODES[name] for name in ("light", "dark", "narrow", "no-script")}, "dark-narrow": DARK_NARROW}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuSite]:
    site = GpuSite(tmp_path_factory.mktemp("gpus"))
    try:
        site.start()
        series = "/api/v1/units/local/slurm/4242/series?names=gpu,gpu_tensor,gpu_power,gpu_throttling"
        site.wait_until(lambda: not site.get(series)["missing"])
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


def look(browser: Browser, site: GpuSite, path: str, mode: str) -> tuple[Page, list[str]]:
    """Open a page signed in, keep a picture of it, and check that it is no wider than the screen."""
    context = browser.new_context(**LOOKS[mode])  # type: ignore[arg-type]
    context.set_default_timeout(15_000)
    context.new_page().goto(f"{site.url}/?token={site.token}")
    page, faults = visit(context, f"{site.url}{path}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"gpus{path.split('?')[0].replace('/', '-')}-{mode}.png", full_page=True)
    width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room
    return page, faults


def panel(page: Page) -> str:
    return page.locator('section[aria-label="GPUs"]').inner_text()


@pytest.mark.parametrize("mode", LOOKS)
def test_a_job_sees_its_gpus_one_by_one(browser: Browser, site: GpuSite, mode: str) -> None:
    page, faults = look(browser, site, "/units/local/slurm/4242", mode)

    text = panel(page)
    assert faults == []
    assert text_faults(page) == []
    assert all(f"GPU {n}" in text for n in range(4))
    assert all(word in text for word in ("97 %", "95 %", "31 %", "67.0", "H100 80GB HBM3"))
    assert "GPU 0 by its power cap" in text
    page.context.close()


def test_each_chart_has_a_line_per_device(browser: Browser, site: GpuSite) -> None:
    page, _ = look(browser, site, "/units/local/slurm/4242", "light")

    for name in ("gpu", "gpu_tensor", "gpu_power", "gpu_memory", "gpu_clock"):
        legend = page.locator(f"#chart-{name} .legend").inner_text()
        assert all(f"GPU {n}" in legend for n in range(4)), name
    assert page.locator("#chart-gpu_throttling .legend").inner_text().strip().startswith("GPU 0: its power cap")
    page.context.close()


def test_an_instance_is_shown_by_its_profile(browser: Browser, site: GpuSite) -> None:
    page, faults = look(browser, site, "/units/local/slurm/4243", "light")

    assert faults == []
    assert "GPU 4 3g.40gb" in panel(page)
    assert "88 %" in panel(page)
    assert "1 × NVIDIA H100 80GB HBM3 3g.40gb" in page.locator(".unit-facts").inner_text()
    page.context.close()


def test_a_shared_gpu_of_unknown_use_is_neither_idle_nor_busy(browser: Browser, site: GpuSite) -> None:
    page, _ = look(browser, site, "/units/local/slurm/4246", "light")

    assert "how busy is not known" in panel(page)
    assert "held idle" not in panel(page)
    page.context.close()


@pytest.mark.parametrize("mode", LOOKS)
def test_the_node_says_who_holds_what_and_what_is_broken(browser: Browser, site: GpuSite, mode: str) -> None:
    page, faults = look(browser, site, f"/nodes/{site.node()}", mode)

    text = panel(page)
    assert faults == []
    assert text_faults(page) == []
    assert "8 GPUs · 5 held (1 of them idle) · 1 free · instances: 2 held (1 of them idle), 1 free · 1 down" in text
    assert "of 7 slices: 3 held, 2 held and idle, 1 free, 1 in no instance" in text
    assert "it fell off the bus." in text
    assert "XID 79" in text
    assert "GPU has fallen off the bus" in text
    page.context.close()


def test_the_first_page_stacks_gpu_energy(browser: Browser, site: GpuSite) -> None:
    page, faults = look(browser, site, "/", "light")

    assert faults == []
    assert "gpu dynamic" in page.locator("main .legend").first.inner_text()
    page.context.close()


def test_usage_has_gpu_time_and_what_was_held_idle(browser: Browser, site: GpuSite) -> None:
    page, faults = look(browser, site, "/usage?by=manager", "light")

    assert faults == []
    assert "GPU time" in page.locator("thead").inner_text()
    assert "Held idle" in page.locator("thead").inner_text()
    page.context.close()


def kwhere(site: GpuSite, *words: str) -> str:
    token = Path(site.directory / "state" / "token")
    command = [sys.executable, "-m", "kwhere", *words, "--server", site.url, "--token-file", str(token)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_command_line_has_a_bar_per_gpu(site: GpuSite) -> None:
    report = kwhere(site, "unit", "4242")
    units = kwhere(site, "units", "--sort", "gpu_busy_seconds")

    assert "GPUs: 4 × NVIDIA H100 80GB HBM3" in report
    assert "         GPU 0: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ ]  97.0 %  67.0/80.0 GiB" in report
    assert max(map(len, report.splitlines())) <= 80
    assert "GPUS  GPU %" in units.splitlines()[0]


def test_energy_of_the_devices_is_that_of_the_account(site: GpuSite) -> None:
    slots = site.get(f"/api/v1/nodes/{site.node()}/balance")["slots"]

    assert len(slots) >= 3
    assert {slot["residual_microjoules"] for slot in slots} == {0}
    assert all(slot["components"]["gpu"]["method"] == "counter" for slot in slots)
