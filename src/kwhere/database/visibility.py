"""Whose units a reader may see, and the SQL that keeps the rest out of every list, sum and single read."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, false, or_, select

from kwhere.core.errors import NotPermitted
from kwhere.database import schema

_units, _runs, _nodes = schema.units.c, schema.unit_runs.c, schema.nodes.c


@dataclass(frozen=True, slots=True)
class AccountName:
    """A user or project by its exact name; `cluster` None: of that name in every cluster."""

    name: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Visibility:
    """Everything, or the units of some users and projects."""

    everything: bool = False
    users: frozenset[AccountName] = frozenset()
    projects: frozenset[AccountName] = frozenset()
    members: frozenset[AccountName] = frozenset()
    """Users whose projects, as memberships stand at the time of the read, are seen like `projects`."""
    site: bool = False
    """Nodes, balances and capacity as well: these tell what all others use together, and name nobody."""

    def resolve(self, connection: Connection) -> "Sight":
        """Return what it means in this database now: names become ids."""
        if self.everything:
            return Sight(everything=True, site=True)
        users = _ids(connection, schema.users, self.users)
        projects = _ids(connection, schema.projects, self.projects)
        members = _ids(connection, schema.users, self.members)
        if members:
            held = schema.memberships.c
            theirs = select(held.project_id).where(held.user_id.in_(sorted(members)))
            projects |= frozenset(connection.execute(theirs).scalars())
        return Sight(False, users, projects, self.site)


EVERYTHING = Visibility(everything=True, site=True)
NOTHING = Visibility()


@dataclass(frozen=True, slots=True)
class Sight:
    """A visibility with the ids of one database; conditions of no entry let everything pass."""

    everything: bool = False
    user_ids: frozenset[int] = frozenset()
    project_ids: frozenset[int] = frozenset()
    site: bool = False

    def owners(self) -> tuple[tuple[ColumnElement[int], list[int]], ...]:
        """Return the columns of `units` and the ids of which one must match; both may be empty of ids."""
        return ((_units.user_id, sorted(self.user_ids)), (_units.project_id, sorted(self.project_ids)))

    def shows(self, column: str, owner_id: int) -> bool:
        """Return whether all units are seen of an owner; `column` is the owner's in `units`."""
        return self.everything or owner_id in {"user_id": self.user_ids, "project_id": self.project_ids}[column]

    def units(self, *, by_index: bool = True) -> list[ColumnElement[bool]]:
        """Return what each row fulfils of a statement that has `units` in it, by inner or outer join.

        `system` and `unallocated` have no unit: they pass for those who see everything only. With `by_index` False
        the owners' columns are written as sums, so that no index of theirs is chosen.
        """
        if self.everything:
            return []
        arms = [(column if by_index else column + 0).in_(ids) for column, ids in self.owners() if ids]
        return [or_(*arms) if arms else false()]

    def users(self) -> list[ColumnElement[bool]]:
        """Return what each row of `users` fulfils: oneself, and who has a unit that is seen."""
        return self._accounts(schema.users, _units.user_id, self.user_ids)

    def projects(self) -> list[ColumnElement[bool]]:
        """Return what each row of `projects` fulfils: those seen, and those that a unit that is seen belongs to."""
        return self._accounts(schema.projects, _units.project_id, self.project_ids)

    def _accounts(self, table: Table, column: ColumnElement[int], ids: frozenset[int]) -> list[ColumnElement[bool]]:
        if self.everything:
            return []
        with_units = select(column).where(*self.units(), column.is_not(None))
        return [or_(table.c.id.in_(sorted(ids)), table.c.id.in_(with_units))]

    def nodes(self) -> list[ColumnElement[bool]]:
        """Return what each row of `nodes` fulfils: a unit that is seen ran there."""
        if self.everything:
            return []
        runs = select(_runs.node_id).join(schema.units, _units.id == _runs.unit_id).where(*self.units())
        return [_nodes.id.in_(runs)]

    def demand_site(self, what: str) -> None:
        """Raise NotPermitted for `what`, of which no part is any one person's (a node's balance, a capacity)."""
        if not self.site:
            raise NotPermitted(f"{what}: shown to operators and auditors, because it tells what others use")


def _ids(connection: Connection, table: Table, accounts: Iterable[AccountName]) -> frozenset[int]:
    clusters = schema.clusters.c
    arms = [_is(table, account) for account in accounts]
    if not arms:
        return frozenset()
    query = select(table.c.id).join(schema.clusters, clusters.id == table.c.cluster_id).where(or_(*arms))
    return frozenset(connection.execute(query).scalars())


def _is(table: Table, account: AccountName) -> ColumnElement[bool]:
    named: ColumnElement[bool] = table.c.name == account.name
    return named if account.cluster is None else and_(named, schema.clusters.c.name == account.cluster)
