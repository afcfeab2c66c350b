"""What a resource manager says, by hand: units at whole seconds after the site's first hour."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine
from tests.journals import SECOND_NS, T0_NS

from kwhere.core.managed import ManagerUnit, run_name
from kwhere.database.claims import ClaimCounts, ClaimTurn, claim_waiting
from kwhere.database.managed_units import write_units
from kwhere.database.manager_states import manager_state

T0 = datetime.fromtimestamp(T0_NS / SECOND_NS, UTC)


def said(unit: str, start_s: int = 0, end_s: int | None = None, **changes: object) -> ManagerUnit:
    """Return a unit of cluster c1 that ran from `start_s` to `end_s` after T0."""
    started_at = T0 + timedelta(seconds=start_s)
    words: dict[str, object] = {
        "cluster": "c1",
        "manager": "slurm",
        "unit": unit,
        "run": run_name(unit, started_at),
        "state": "running" if end_s is None else "completed",
        "started_at": started_at,
        "ended_at": None if end_s is None else T0 + timedelta(seconds=end_s),
        "nodes": ("n1",),
        **changes,
    }
    return ManagerUnit(**words)  # type: ignore[arg-type]


def turn_of(engine: Engine, now_ns: int, manager: str = "slurm", cluster: str = "c1") -> ClaimTurn:
    return ClaimTurn(manager_state(engine, cluster, manager).cluster_id, manager, now_ns)


def tell(engine: Engine, *units: ManagerUnit, now_ns: int = T0_NS) -> ClaimCounts:
    """Write what a manager says and look at all runs that wait."""
    turn = turn_of(engine, now_ns)
    return write_units(engine, turn, units).plus(claim_waiting(engine, turn, lambda: True))
