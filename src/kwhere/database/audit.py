"""Who decided what, and when."""

import json
from collections.abc import Mapping

from sqlalchemy import Connection, insert

from kwhere.database import schema


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
