"""What is drawn of a unit's nodes and GPUs ends with the unit, for who does not see everything."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import NOW, UNITS

from kwhere.access.principal import Principal, anyone
from kwhere.access.roles import Role
from kwhere.core.timespan import Span
from kwhere.database.visibility import AccountName, Visibility
from kwhere.reports.sources import Sources
from kwhere.reports.unit_charts import seen_span, unit_charts

HOUR = timedelta(hours=1)
RECORD = replace(UNITS[0], started_at=NOW - 5 * HOUR, ended_at=NOW - 3 * HOUR)
ALICE = Principal("alice", frozenset({Role.USER}), "", Visibility(users=frozenset({AccountName("alice")})))


def _sources(principal: Principal) -> Sources:
    return Sources(account=FakeAccount(), clock=FixedClock()).seen_by(principal)


@pytest.mark.parametrize(
    ("asked", "seen"),
    [((-9, 0), (-5, -3)), ((-4, -3.5), (-4, -3.5)), ((-9, -4), (-5, -4)), ((-3, 0), None), ((-9, -5), None)],
)
def test_a_user_sees_a_units_own_life(asked: tuple[float, float], seen: tuple[float, float] | None) -> None:
    span = Span(NOW + asked[0] * HOUR, NOW + asked[1] * HOUR)

    found = seen_span(_sources(ALICE), RECORD, span)

    assert found == (None if seen is None else Span(NOW + seen[0] * HOUR, NOW + seen[1] * HOUR))
    assert seen_span(_sources(anyone()), RECORD, span) == span


def test_a_span_outside_a_units_life_has_no_chart_and_says_why() -> None:
    charts, missing = unit_charts(_sources(ALICE), RECORD, ["power", "gpu"], Span(NOW - HOUR, NOW), 60.0)

    assert charts == []
    assert set(missing.values()) == {"the unit did not live within this span"}
