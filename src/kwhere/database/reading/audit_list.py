"""The audit log, newest first."""

import json

from sqlalchemy import ColumnElement, select

from kwhere.core.errors import NotPermitted
from kwhere.database import schema
from kwhere.database.audit import AuditPage, AuditQuery, AuditRecord
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.reading.paging import decode_cursor, encode_cursor
from kwhere.database.reading.site import Moment

MOST = 1000
_audit = schema.audit.c


def list_audit(moment: Moment, query: AuditQuery) -> AuditPage:
    """Return one page. Raises BadCursor, NotPermitted for who does not see everything."""
    if not moment.sight.everything:
        raise NotPermitted("audit log: for auditors and operators")
    limit = max(1, min(query.limit, MOST))
    statement = select(schema.audit).where(*_conditions(query)).order_by(_audit.at_ns.desc(), _audit.id.desc())
    rows = moment.connection.execute(statement.limit(limit + 1)).all()
    items = tuple(
        AuditRecord(from_ns(row.at_ns), row.actor, row.action, row.subject, json.loads(row.detail))
        for row in rows[:limit]
    )
    more = len(rows) > limit
    return AuditPage(items, encode_cursor([rows[limit - 1].at_ns, rows[limit - 1].id]) if more else None)


def _conditions(query: AuditQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.actor is not None:
        found.append(_audit.actor == query.actor)
    if query.action is not None:
        found.append(_audit.action == query.action)
    if query.span is not None:
        found += [_audit.at_ns >= to_ns(query.span.start), _audit.at_ns < to_ns(query.span.end)]
    if query.after is not None:
        at_ns, line = decode_cursor(query.after, (int, int))
        found.append((_audit.at_ns < at_ns) | ((_audit.at_ns == at_ns) & (_audit.id < line)))
    return found
