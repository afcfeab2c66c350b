"""Where a user's name stands beside the account itself: queues, groups, tokens, the audit log."""

import re
from typing import NamedTuple

from sqlalchemy import Connection, func, select, update

from kwhere.database import schema


class AccountNames(NamedTuple):
    """A user's name, and what stands for it from now on."""

    user: str
    alias: str


def drop_traces(connection: Connection, user_id: int, names: AccountNames, now_ns: int) -> None:
    """Put the alias, or nothing, where the name stands.

    Tokens and the audit log name people, not users of a cluster: while another cluster has a user of that name, they
    keep it.
    """
    _drop_from_queue(connection, user_id)
    _drop_private_group(connection, user_id, names.user)
    users = schema.users.c
    if connection.execute(select(users.id).where(users.name == names.user)).first() is None:
        _end_tokens(connection, names, now_ns)
        _rename_in_audit(connection, names)


def _drop_from_queue(connection: Connection, user_id: int) -> None:
    waiting = schema.waiting_units
    mine = update(waiting).where(waiting.c.user_id == user_id)
    connection.execute(mine.values(name=None, labels=None, user_group=None))


def _drop_private_group(connection: Connection, user_id: int, user: str) -> None:
    """Many systems give each user a group of their own name."""
    units = schema.units
    connection.execute(
        update(units).where(units.c.user_id == user_id, units.c.user_group == user).values(user_group=None)
    )


def _end_tokens(connection: Connection, names: AccountNames, now_ns: int) -> None:
    tokens = schema.api_tokens
    for column in (tokens.c.owner, tokens.c.created_by):
        connection.execute(update(tokens).where(column == names.user).values({column.name: names.alias}))
    theirs = update(tokens).where(tokens.c.owner == names.alias, tokens.c.revoked_ns.is_(None))
    connection.execute(theirs.values(revoked_ns=now_ns, note=""))


def _rename_in_audit(connection: Connection, names: AccountNames) -> None:
    """The log goes on telling what one and the same person did, or had done to them."""
    audit = schema.audit
    connection.execute(update(audit).where(audit.c.actor == names.user).values(actor=names.alias))
    holds = func.instr if connection.dialect.name == "sqlite" else func.strpos
    named = (holds(audit.c.subject, names.user) > 0) | (holds(audit.c.detail, names.user) > 0)
    for row in connection.execute(select(audit.c.id, audit.c.subject, audit.c.detail).where(named)).all():
        subject, detail = (_without(text, names) for text in (row.subject, row.detail))
        connection.execute(update(audit).where(audit.c.id == row.id).values(subject=subject, detail=detail))


def _without(text: str, names: AccountNames) -> str:
    """Replace the name where it stands alone, not as a part of another."""
    return re.sub(rf"(?<![\w.@-]){re.escape(names.user)}(?![\w.@-])", names.alias, text)
