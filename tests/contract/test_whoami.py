"""Who asks, through the door: a user, and who holds the server's token."""

from pathlib import Path

from tests.databases import sqlite_engine
from tests.two_tenants import as_user, fill, open_door


def test_a_user_is_told_what_they_see(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "site.sqlite")
    fill(engine, others=True)
    client = open_door(engine, tmp_path)

    asker = client.get("/api/v1/whoami", headers=as_user("alice")).json()

    assert (asker["name"], asker["everything"], asker["users"]) == ("alice", False, ["alice"])
    assert asker["sees"].startswith("their own units")
    assert asker["contact"] == "hpc@example.org"
    engine.dispose()
