"""What every test may use: services of the machine, found or skipped by name and listed at the end."""

import glob
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests.directory_server import is_installed as directory_is_installed
from tests.libvirt_host import is_installed as libvirt_is_installed
from tests.libvirt_host import runs_machines
from tests.oar_server import is_installed as oar_is_installed
from tests.slurm_cluster import is_installed as slurm_is_installed

# A busy machine is no fault of the code: no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell ignores Ctrl-C for what it starts in the background, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ADMIN_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
SERVICES: dict[str, Callable[[], bool]] = {
    "chromium": lambda: shutil.which("chromium") is not None,
    "prometheus": lambda: shutil.which("prometheus") is not None,
    "promtool": lambda: shutil.which("promtool") is not None,
    "victoria-metrics": lambda: shutil.which("victoria-metrics") is not None,
    "stress-ng": lambda: shutil.which("stress-ng") is not None,
    "postgresql": lambda: bool(glob.glob("/usr/lib/postgresql/*/bin/initdb")) and os.geteuid() == 0,
    "cgroups": lambda: os.geteuid() == 0 and os.access("/sys/fs/cgroup", os.W_OK),
    "root": lambda: os.geteuid() == 0,
    "ipmi": lambda: all(shutil.which(name, path=_ADMIN_PATH) for name in ("ipmi_sim", "ipmitool", "ipmi-dcmi")),
    "slurm": slurm_is_installed,
    "oar": oar_is_installed,
    "slapd": directory_is_installed,
    "podman": lambda: os.geteuid() == 0 and shutil.which("podman") is not None,
    "virsh": libvirt_is_installed,
    "libvirtd": runs_machines,
    "cc": lambda: shutil.which("cc") is not None and os.path.exists("/usr/include/linux/ipmi.h"),
}
PREFIX = "needs the service "
PROGRAMS = Path(__file__).parent / "e2e"


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Undo what a command under test set up for the logs of its process."""
    yield
    structlog.reset_defaults()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, each test whose service this machine lacks; mark those that run without coverage."""
    present = {name: check() for name, check in SERVICES.items()}
    for item in items:
        if _is_uncounted(item):
            item.add_marker("uncounted")
        for mark in item.iter_markers("service"):
            missing = [name for name in mark.args if not present[name]]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"{PREFIX}{', '.join(missing)}: make test-services"))


def _is_uncounted(item: pytest.Item) -> bool:
    services = {name for mark in item.iter_markers("service") for name in mark.args}
    marks = {mark.name for mark in item.iter_markers()}
    return PROGRAMS in item.path.parents or "postgresql" in services or bool(marks & {"slow", "soak", "managers"})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was skipped for want of a service."""
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if PREFIX in str(r.longrepr)]
    if skipped:
        terminalreporter.section("skipped for want of a service", sep="-")
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[2]!s}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail CI when a test was skipped for want of a service."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None:
        return
    if any(PREFIX in str(report.longrepr) for report in reporter.stats.get("skipped", [])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
