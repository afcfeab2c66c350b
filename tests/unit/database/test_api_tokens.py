"""API tokens in the database: found by the whole text alone, until they end."""

import pytest
from sqlalchemy import Engine, select

from kwhere.core.errors import NotFound
from kwhere.database import schema
from kwhere.database.api_tokens import (
    USED_NS,
    NewToken,
    create_token,
    find_token,
    id_of,
    is_token,
    list_tokens,
    revoke_token,
)

NOW = 1_700_000_000_000_000_000
NEW = NewToken("alice", "user", "ci", NOW + 1000)


def test_a_token_is_found_until_it_ends(engine: Engine) -> None:
    token = create_token(engine, NEW, NOW, by="root")

    found = find_token(engine, token, NOW + 999)

    assert is_token(token)
    assert found is not None
    assert (found.owner, found.role, found.note, found.created_by) == ("alice", "user", "ci", "root")
    assert find_token(engine, token, NOW + 1000) is None


def test_nothing_of_a_token_is_kept_that_opens_the_door(engine: Engine) -> None:
    token = create_token(engine, NEW, NOW, by="root")

    with engine.connect() as connection:
        held = [str(row) for table in (schema.api_tokens, schema.audit) for row in connection.execute(select(table))]

    assert len(held) == 2
    assert not any(token in row or token.split("_", 2)[2] in row for row in held)


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "x", lambda t: t.upper(), lambda t: f" {t}"])
def test_any_other_text_is_nobodys(engine: Engine, change: "object") -> None:
    token = create_token(engine, NEW, NOW, by="root")

    assert callable(change)
    assert find_token(engine, change(token), NOW) is None


@pytest.mark.parametrize("text", ["", "kwt", "kwt_", "kwt__", "kwt_a_b_c", "x" * 9000, "kwt_ü_ü"])
def test_nonsense_is_no_token(engine: Engine, text: str) -> None:
    assert find_token(engine, text, NOW) is None
    assert not is_token("kwt_ü_ü")
    assert not is_token("kwt_\0_\0")
    assert len(id_of(text)) <= 16


def test_a_revoked_token_opens_nothing(engine: Engine) -> None:
    token = create_token(engine, NEW, NOW, by="root")
    revoke_token(engine, id_of(token), NOW + 1, by="root")

    assert find_token(engine, token, NOW + 2) is None
    with pytest.raises(NotFound):
        revoke_token(engine, id_of(token), NOW + 3, by="root")
    with engine.connect() as connection:
        assert [each.state(each.created_at) for each in list_tokens(connection)] == ["revoked"]
        actions = connection.execute(select(schema.audit.c.action).order_by(schema.audit.c.id)).scalars().all()
        assert actions == ["create token", "revoke token"]


def test_use_is_noted_to_some_minutes(engine: Engine) -> None:
    token = create_token(engine, NewToken("alice", "user", "", NOW * 2), NOW, by="root")
    used: list[int] = []
    for after_ns in (0, USED_NS // 2, USED_NS + 1):
        find_token(engine, token, NOW + after_ns)
        with engine.connect() as connection:
            used.append(connection.execute(select(schema.api_tokens.c.used_ns)).scalar_one())

    assert used == [NOW, NOW, NOW + USED_NS + 1]
