"""API tokens: made, found by their digest, ended. The token itself is shown once and kept nowhere."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

from kwhere.core.errors import NotFound
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import audit, schema
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns

PREFIX = "kwt"
USED_NS = 300 * NANOSECONDS_PER_SECOND
"""Use is noted to five minutes: a read writes nothing more often."""
_ID_BYTES = 4
_SECRET_BYTES = 32
_tokens = schema.api_tokens.c


@dataclass(frozen=True, slots=True)
class ApiToken:
    """What is known of a token."""

    id: str
    owner: str
    role: str
    note: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """Return `valid`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if now < self.expires_at else "expired"


@dataclass(frozen=True, slots=True)
class NewToken:
    """What a token is made of."""

    owner: str
    role: str
    note: str
    expires_ns: int


def create_token(engine: Engine, new: NewToken, now_ns: int, *, by: str) -> str:
    """Make a token and return it; nobody can read it again."""
    token_id = secrets.token_hex(_ID_BYTES)
    token = f"{PREFIX}_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    with writing(engine).begin() as connection:
        connection.execute(
            insert(schema.api_tokens).values(
                id=token_id,
                digest=_digest(token),
                owner=new.owner,
                role=new.role,
                note=new.note,
                created_ns=now_ns,
                created_by=by,
                expires_ns=new.expires_ns,
            )
        )
        detail = {"owner": new.owner, "role": new.role, "expires_ns": new.expires_ns}
        audit.record(connection, now_ns, by, "create token", token_id, detail)
    return token


def find_token(engine: Engine, token: str, now_ns: int) -> ApiToken | None:
    """Return the valid token of this text, and note that it was used; None for any other."""
    # A look-up by digest takes the same time however much of a guess is right.
    query = select(*_tokens).where(_tokens.id == id_of(token), _tokens.digest == _digest(token))
    with engine.connect() as connection:
        row = connection.execute(query).one_or_none()
    if row is None or row.revoked_ns is not None or row.expires_ns <= now_ns:
        return None
    if row.used_ns is None or row.used_ns < now_ns - USED_NS:
        with writing(engine).begin() as connection:
            used = update(schema.api_tokens).where(_tokens.id == row.id).values(used_ns=now_ns)
            connection.execute(used)
    return _record(row)


def is_token(text: str) -> bool:
    """Return whether a text has the shape of an API token."""
    return text.startswith(f"{PREFIX}_") and text.count("_") >= 2 and text.isascii() and text.isprintable()


def id_of(token: str) -> str:
    """Return the public part of a token, empty where it has none."""
    parts = token.split("_", 2)
    return parts[1][:16] if len(parts) == 3 else ""


def list_tokens(connection: Connection) -> Sequence[ApiToken]:
    """Return all tokens, those made last first."""
    rows = connection.execute(select(*_tokens).order_by(_tokens.created_ns.desc(), _tokens.id))
    return [_record(row) for row in rows]


def revoke_token(engine: Engine, token_id: str, now_ns: int, *, by: str) -> None:
    """End a token at once. Raises NotFound for an id that is none, or of one that has ended."""
    with writing(engine).begin() as connection:
        ended = update(schema.api_tokens).where(_tokens.id == token_id, _tokens.revoked_ns.is_(None))
        if connection.execute(ended.values(revoked_ns=now_ns)).rowcount != 1:
            raise NotFound(f"token {token_id}: none of that id, or revoked before")
        audit.record(connection, now_ns, by, "revoke token", token_id)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _record(row: Any) -> ApiToken:
    return ApiToken(
        id=row.id,
        owner=row.owner,
        role=row.role,
        note=row.note,
        created_at=from_ns(row.created_ns),
        created_by=row.created_by,
        expires_at=from_ns(row.expires_ns),
        used_at=None if row.used_ns is None else from_ns(row.used_ns),
        revoked_at=None if row.revoked_ns is None else from_ns(row.revoked_ns),
    )
