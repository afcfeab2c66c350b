"""What `kwhere up` prepares before it forks."""

import os
from pathlib import Path

import pytest

from kwhere.agent.listen import close_sockets
from kwhere.apps.settings import Settings
from kwhere.apps.up import (
    KeptHints,
    UpOptions,
    UpParts,
    ensure_access_token,
    lock_state,
    open_pages,
    prepare,
    up_settings,
)
from kwhere.core.errors import ConfigError


def test_the_token_is_random_kept_and_its_owners_alone(tmp_path: Path) -> None:
    first = ensure_access_token(tmp_path / "token")
    other = ensure_access_token(tmp_path / "other")
    (tmp_path / "token").chmod(0o644)

    again = ensure_access_token(tmp_path / "token")

    assert first == again != other
    assert len(first) >= 32
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_a_state_directory_serves_one(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:9811\n")
    held = lock_state(tmp_path)

    with pytest.raises(ConfigError, match=r"another `kwhere up` runs at http://127\.0\.0\.1:9811"):
        lock_state(tmp_path)

    os.close(held)
    os.close(lock_state(tmp_path))


def test_preparing_binds_both_ports_and_tells_the_address(tmp_path: Path) -> None:
    settings = Settings.model_validate({"web": {"listen_addresses": ["127.0.0.1:0"]}})

    parts = prepare(UpOptions(tmp_path / "state", "127.0.0.1:0"), settings)
    try:
        assert (tmp_path / "state" / "url").read_text() == f"{parts.url}\n"
        assert parts.url.startswith("http://127.0.0.1:")
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
        assert "0" not in parts.url.rpartition(":")[2][:1]
    finally:
        for listening in (*parts.pages, *parts.agent):
            listening.close()
        os.close(parts.lock)


def test_one_machine_has_short_slots_and_one_target(tmp_path: Path) -> None:
    settings = up_settings(Settings(), tmp_path, "http://127.0.0.1:9810")

    assert (settings.agent.first_slot_seconds, settings.agent.slot_seconds) == (2.0, 10.0)
    assert settings.server.pull_seconds == 1.0
    (group,) = settings.server.targets
    assert (group.cluster, group.urls, group.client.token_file) == (
        "local",
        ("http://127.0.0.1:9810",),
        tmp_path / "ledger-token",
    )


def test_days_are_the_machines_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")

    own = up_settings(Settings(), tmp_path, "http://127.0.0.1:9810")
    given = Settings.model_validate({"site": {"time_zone": "Europe/Paris"}})

    assert own.site.time_zone == "Asia/Kathmandu"
    assert up_settings(given, tmp_path, "http://127.0.0.1:9810").site.time_zone == "Europe/Paris"


def test_what_a_person_set_is_kept(tmp_path: Path) -> None:
    given = Settings.model_validate({"agent": {"slot_seconds": 30, "interval_seconds": 20}})

    settings = up_settings(given, tmp_path, "http://127.0.0.1:9810")

    assert settings.agent.slot_seconds == 30
    assert settings.agent.first_slot_seconds == 20  # never shorter than a step


def test_hints_are_looked_for_once_a_minute() -> None:
    now = [0.0]
    hints = KeptHints(Settings(), lambda: now[0])

    first = hints()
    second = hints()
    now[0] = 61.0
    third = hints()

    assert first is second
    assert third is not second


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"--state .*file/state: cannot be written: Not a directory"):
        prepare(UpOptions(tmp_path / "file" / "state"), Settings())


@pytest.mark.parametrize("listen", ["", "nonsense", "127.0.0.1:99999"])
def test_a_wrong_address_is_said_of_the_option(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"^--listen: expected HOST:PORT"):
        open_pages(listen)


@pytest.mark.parametrize(("listen", "is_open"), [("0.0.0.0:0", True), (":0", True), ("127.0.0.1:0", False)])
def test_the_address_told_is_one_that_this_machine_answers_to(listen: str, is_open: bool) -> None:
    sockets = open_pages(listen)
    try:
        parts = UpParts(sockets, [], "token", -1)

        assert parts.url == f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        assert parts.is_open is is_open
    finally:
        close_sockets(sockets)
