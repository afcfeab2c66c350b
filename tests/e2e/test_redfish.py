"""A BMC behind a real `kwhere redfish-proxy`, read by a real `kwhere agent`: energy rises with its watts, a restart of
the BMC is a gap, and no secret is in any text."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import redfish_bmc
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.redfish_bmc import PASSWORD, Bmc

TOKEN = "t0ken-of-the-agents-0123456789"


class Site:
    """One node without a route to its BMC."""

    def __init__(self, directory: Path, bmc: Bmc) -> None:
        self.processes = RoleProcesses(directory)
        self.directory = directory
        self.proxy, self.agent = free_address(), free_address()
        password, token = self.processes.secret("password", PASSWORD), self.processes.secret("token", TOKEN)
        self.processes.configure(
            "redfish-proxy",
            {
                "redfish_proxy": {
                    "listen_addresses": [self.proxy],
                    "token_file": token,
                    "refresh_seconds": 1,
                    "targets": {"n1": {"url": bmc.url}},
                    "client": {"username": redfish_bmc.USER, "password_file": password},
                }
            },
        )
        self.processes.configure(
            "agent",
            {
                "agent": {"node": "n1", "interval_seconds": 0.5, "slot_seconds": 5},
                "web": {"listen_addresses": [self.agent]},
                "meters": {
                    "redfish": {
                        "url": f"http://{self.proxy}/{{node}}",
                        "refresh_seconds": 1,
                        "client": {"token_file": token},
                    }
                },
            },
        )

    def start(self) -> None:
        self.processes.start("redfish-proxy")
        self.processes.start("agent")

    def samples(self) -> dict[tuple[str, str], float]:
        """Return what the agent says of its sources: (metric, source or component) → value."""
        found: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(httpx.get(f"http://{self.agent}/metrics", timeout=10).text):
            for sample in family.samples:
                label = sample.labels.get("source") or sample.labels.get("component") or ""
                key = (sample.name, label)
                found[key] = found.get(key, 0.0) + sample.value
        return found

    def joules(self) -> float:
        return self.samples().get(("kwhere_node_platform_joules_total", "redfish"), 0.0)

    def is_up(self) -> bool:
        return self.samples().get(("kwhere_energy_source_up", "redfish")) == 1

    def gaps(self) -> float:
        return self.samples().get(("kwhere_energy_gaps_total", "redfish"), 0.0)

    def wait_for_joules(self, more: float) -> float:
        """Return the energy once it has risen by `more`."""
        least = self.joules() + more
        self.processes.wait_until(lambda: self.joules() >= least)
        return self.joules()


@pytest.fixture
def bmc() -> Iterator[Bmc]:
    made = Bmc({})
    made.tree = redfish_bmc.idrac(lambda: made.watts)
    with made:
        yield made


@pytest.fixture
def site(tmp_path: Path, bmc: Bmc) -> Iterator[Site]:
    made = Site(tmp_path, bmc)
    yield made
    made.processes.kill_all()


@pytest.mark.slow
def test_energy_follows_the_bmc_and_its_restart_is_a_gap(site: Site, bmc: Bmc) -> None:
    site.start()
    site.processes.wait_until(site.is_up)
    site.wait_for_joules(200)
    bmc.watts = 500
    site.wait_for_joules(400)
    other = site.samples()[("kwhere_node_energy_joules_total", "other")]

    bmc.stop()
    site.processes.wait_until(lambda: not site.is_up())
    still, before_gaps = site.joules(), site.gaps()
    site.processes.wait_until(lambda: "bmc gave no answer" in (site.directory / "redfish-proxy.log").read_text())
    assert site.joules() == still  # nothing is added while nobody knows
    bmc.start()
    site.processes.wait_until(site.is_up)
    after = site.wait_for_joules(400)
    gaps = site.gaps()

    text = httpx.get(f"http://{site.agent}/metrics", timeout=10).text
    site.processes.end("agent", signal.SIGTERM)
    site.processes.end("redfish-proxy", signal.SIGTERM)
    logs = "".join(path.read_text() for path in site.directory.glob("*.log"))
    journal = b"".join(path.read_bytes() for path in (site.directory / "agent").glob("journal*"))
    assert other > 0
    assert after > still
    assert gaps > before_gaps
    assert bmc.sessions == {}, "the proxy logs out"
    assert bmc.logins == 2  # at the start, and after the restart
    for secret in (PASSWORD, TOKEN):
        assert secret not in logs
        assert secret not in text
        assert secret.encode() not in journal


@pytest.mark.slow
def test_a_wrong_configuration_of_the_proxy_stops_its_start(site: Site) -> None:
    site.processes.configure("redfish-proxy", {"redfish_proxy": {"listen_addresses": ["0.0.0.0:0"]}})
    site.processes.start("redfish-proxy")
    log = site.directory / "redfish-proxy.log"
    site.processes.wait_until(lambda: "redfish_proxy.targets: expected at least one node" in log.read_text())
