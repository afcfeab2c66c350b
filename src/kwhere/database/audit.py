"""Who decided what, and when."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert

from kwhere.core.timespan import Span
from kwhere.database import schema


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which lines; `after` is the cursor of the page before."""

    actor: str | None = None
    action: str | None = None
    span: Span | None = None
    limit: int = 100
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who did what, when, to what."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page of the log; `next` is None on the last."""

    items: tuple[AuditRecord, ...]
    next: str | None


def record(
    connection: Connection,
    now_ns: int,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Write one line of the audit log, in the transaction of what it tells."""
    connection.execute(
        insert(schema.audit).values(
            at_ns=now_ns, actor=actor, action=action, subject=subject, detail=json.dumps(dict(detail or {}))
        )
    )
