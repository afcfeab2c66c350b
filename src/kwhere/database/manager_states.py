"""How far each resource manager was read, and why one could not be."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, select, update

from kwhere.database import bulk, schema
from kwhere.database.claims import ClaimTurn
from kwhere.database.engine import writing
from kwhere.database.identities import ensure_cluster
from kwhere.database.storable import ERROR_LENGTH, cut

_states = schema.manager_states.c


@dataclass(frozen=True, slots=True)
class ManagerState:
    """How far a manager was read; None: not yet."""

    cluster_id: int
    good_until_ns: int | None
    facts_ns: int | None
    queue_ns: int | None
    cursor: str | None

    @property
    def heard_ns(self) -> int | None:
        """Return when its units were last known to be as they are written."""
        known = [at_ns for at_ns in (self.good_until_ns, self.queue_ns) if at_ns is not None]
        return max(known, default=None)


def manager_state(engine: Engine, cluster: str, manager: str) -> ManagerState:
    """Return how far a manager was read; its cluster is made when first named."""
    with writing(engine).begin() as connection:
        cluster_id = ensure_cluster(connection, cluster)
        bulk.upsert(connection, schema.manager_states, ("cluster_id", "manager"), {}, [(cluster_id, manager)])
        query = select(_states.good_until_ns, _states.facts_ns, _states.queue_ns, _states.cursor).where(
            _states.cluster_id == cluster_id, _states.manager == manager
        )
        return ManagerState(cluster_id, *connection.execute(query).one())


def note_good(engine: Engine, turn: ClaimTurn, until_ns: int) -> None:
    """Note that all before `until_ns` was read and written."""
    _note(engine, turn, {"good_until_ns": until_ns, "error": None, "error_since_ns": None})


def note_cursor(engine: Engine, turn: ClaimTurn, cursor: str, until_ns: int) -> None:
    """Note that all that a manager pushed before `cursor` was written, at `until_ns`."""
    values = {"cursor": cursor, "good_until_ns": until_ns, "error": None, "error_since_ns": None}
    _note(engine, turn, values)


def note_error(engine: Engine, turn: ClaimTurn, error: str) -> None:
    """Note why a manager could not be read, and since when."""
    _note(engine, turn, {"error": cut(error, ERROR_LENGTH)})
    first = (_states.cluster_id == turn.cluster_id) & (_states.manager == turn.manager)
    with writing(engine).begin() as connection:
        connection.execute(
            update(schema.manager_states)
            .where(first, _states.error_since_ns.is_(None))
            .values(error_since_ns=turn.now_ns)
        )


def forget_errors(engine: Engine, asked: Collection[tuple[str, str]]) -> None:
    """Forget why managers that nobody asks any more could not be read; `asked` are clusters and managers of others."""
    clusters = schema.clusters.c
    faulty = (
        select(clusters.name, _states.manager, _states.cluster_id)
        .join(schema.clusters, clusters.id == _states.cluster_id)
        .where(_states.error.is_not(None))
    )
    with writing(engine).begin() as connection:
        for cluster, manager, cluster_id in connection.execute(faulty).all():
            if (cluster, manager) not in asked:
                its = (_states.cluster_id == cluster_id) & (_states.manager == manager)
                connection.execute(update(schema.manager_states).where(its).values(error=None, error_since_ns=None))


def _note(engine: Engine, turn: ClaimTurn, values: Mapping[str, object]) -> None:
    with writing(engine).begin() as connection:
        connection.execute(
            update(schema.manager_states)
            .where(_states.cluster_id == turn.cluster_id, _states.manager == turn.manager)
            .values(**values)
        )
