"""The server's slow round over nodes: what it keeps, what a store that does not answer costs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_series import FakeSeries

from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.database.records import NodePage, NodeState
from kwhere.series.store import RawSeries, Selector
from kwhere.server.agreement_round import AgreementRound


@dataclass
class Store(FakeSeries):
    """Knows only some nodes, and may be told to fail."""

    fails_for: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        self.asked.append(selector.labels["node"])
        if selector.labels["node"] in self.fails_for:
            raise Unavailable("timeout", "store: no answer")
        return super().select(selector, span, step_seconds)


class Account(FakeAccount):
    """One page per node, of which some are lost."""

    lost: frozenset[str] = frozenset()

    def nodes(
        self,
        cluster: str | None = None,
        state: NodeState | None = None,
        after: str | None = None,
        limit: int = 500,
    ) -> NodePage:
        items = super().nodes(cluster, state, after, limit).items
        at = int(after or 0)
        record = replace(items[at], state=NodeState.LOST) if items[at].node in self.lost else items[at]
        return NodePage((record,), str(at + 1) if at + 1 < len(items) else None)


def test_every_reporting_node_is_looked_at_page_by_page() -> None:
    found = AgreementRound(Account(), Store(), FixedClock())

    found.run_once()

    assert [found.of("local", name) is not None for name in ("node-a", "node-b", "node-c")] == [True, True, False]
    assert len(found.of_cluster("local")) == len(found.of_cluster(None)) == 2
    assert found.of_cluster("elsewhere") == []


def test_a_node_that_the_store_cannot_say_anything_of_takes_no_other_down(capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(fails_for=frozenset({"node-a"}))
    found = AgreementRound(Account(), store, FixedClock())

    found.run_once()
    found.run_once()

    assert found.of("local", "node-a") is None
    assert found.of("local", "node-b") is not None
    assert capsys.readouterr().out.count("meters cannot be compared") <= 2


def test_a_node_that_no_longer_reports_is_forgotten() -> None:
    account = Account()
    found = AgreementRound(account, Store(), FixedClock())
    found.run_once()
    account.lost = frozenset({"node-b"})

    found.run_once()

    assert found.of("local", "node-a") is not None
    assert found.of("local", "node-b") is None


def test_it_ends_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = AgreementRound(Account(), Store(), FixedClock())

    found.start()
    found.stop()

    assert found._thread is not None
    assert not found._thread.is_alive()
