"""What stands out of a unit, on its page: the same sentences as on the command line."""

from dataclasses import replace

from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import UNITS

from kwhere.database.records import UnitRecord
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages


class Wasteful(FakeAccount):
    """Alice's job uses a tenth of its CPUs and was killed for want of memory."""

    def unit(
        self, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
    ) -> UnitRecord:
        return replace(UNITS[0], cpu_efficiency_ratio=0.1, state="out_of_memory")


def page(account: FakeAccount) -> str:
    sources = Sources(account=account, clock=FixedClock(), time_zone="Europe/Paris", version="0.1.0")
    return AsgiClient(let_in(build_pages(sources))).get("/units/local/slurm/4242").text


def test_findings_stand_on_the_page_the_grave_ones_first() -> None:
    text = page(Wasteful())

    assert text.index("it was killed for want of memory") < text.index("used 10.0 % of the CPU time of its 32 CPUs")
    assert '<span class="badge warn">out of memory</span>' in text
    assert "<strong>ask for 4 CPUs, or find what it waits for</strong>" in text


def test_without_one_there_is_no_panel() -> None:
    assert ">Findings<" not in page(FakeAccount())
