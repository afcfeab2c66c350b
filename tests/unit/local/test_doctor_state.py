"""What kwhere keeps on this machine: on real files, a real journal, a real socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.doctor_place import MACHINE, found, here_in
from tests.journals import T0_NS, controls, figures, key, system, unit

from kwhere.core.errors import JournalError, NotPermitted, Unavailable
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.file_system import Durability
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.ledger.rows import Slot
from kwhere.local import doctor_state
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_journal import last_entry
from kwhere.local.doctor_place import Here
from kwhere.local.doctor_state import CHECKS

FACTS = EpochFacts("n1", (), "3f2a", "boot-1", None, 60, "allocation", 10, {"cpu": 1}, "0.1")


class Fixed:
    """A clock that stands two minutes after the first slot began."""

    def monotonic_ns(self) -> int:
        return 0

    def boottime_ns(self) -> int:
        return 0

    def utc_ns(self) -> int:
        return T0_NS + 120 * 10**9


@contextmanager
def journal(directory: Path, identity: JournalIdentity = MACHINE, slots: int = 2) -> Iterator[Journal]:
    """Keep a journal with slots of 30 s, in each of which unit 42 used 3 J."""
    kept = Journal.open(directory, identity, FACTS, clock=Fixed())
    try:
        for number in range(slots):
            entries = (unit(key("42"), figures(2_000_000, 1_000_000), name="cfd"), system(figures(5, 0)))
            start = T0_NS + number * 30 * 10**9
            slot = Slot(number + 1, start, start + 30 * 10**9, 30 * 10**9, controls(entries, 1), entries)
            kept.append(slot, "{}")
        yield kept
    finally:
        kept.close()


def test_a_new_directory_is_fine(tmp_path: Path) -> None:
    checks = found(CHECKS, here_in(tmp_path / "state" / "kwhere"))

    assert checks["state"].state is CheckState.OK
    assert checks["state"].found.endswith("made at the first start")
    assert not (tmp_path / "state").exists()
    assert {checks[name].state for name in ("journal", "agent", "server")} == {CheckState.MISSING}


@pytest.mark.parametrize(
    ("durability", "state"),
    [
        (Durability.NETWORK, CheckState.FAILED),
        (Durability.MEMORY, CheckState.WARNING),
        (Durability.DISK, CheckState.OK),
    ],
)
def test_where_the_journal_would_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, state: CheckState
) -> None:
    monkeypatch.setattr(doctor_state, "file_system_of", lambda _: (durability, "somefs"))

    assert found(CHECKS, here_in(tmp_path))["state"].state is state


def test_too_little_room(tmp_path: Path) -> None:
    check = found(CHECKS, here_in(tmp_path, journal_max_mebibytes=1e12))["state"]

    assert check.state is CheckState.WARNING
    assert "journal.max_mebibytes" in check.why


def test_a_journal_beside_its_running_agent(tmp_path: Path) -> None:
    with journal(tmp_path):
        check = found(CHECKS, here_in(tmp_path, clock=Fixed()))["journal"]

    assert check.state is CheckState.OK
    assert check.found.startswith("2 slots, ")
    assert check.found.endswith("the newest 1 min ago")


def test_a_journal_without_a_slot(tmp_path: Path) -> None:
    with journal(tmp_path, slots=0):
        assert found(CHECKS, here_in(tmp_path))["journal"].found == "holds no slot yet"


def test_a_journal_of_another_machine(tmp_path: Path) -> None:
    with journal(tmp_path, replace(MACHINE, machine_id="other", node="n7")):
        check = found(CHECKS, here_in(tmp_path))["journal"]

    assert check.state is CheckState.WARNING
    assert "n7" in check.why


def test_a_damaged_journal_can_be_put_aside_and_back(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no database at all" * 1000)

    check = found(CHECKS, here_in(tmp_path))["journal"]

    assert check.state is CheckState.FAILED
    assert check.remedies[0].command == f"mv {tmp_path}/journal.sqlite {tmp_path}/journal.sqlite.aside"
    assert check.remedies[0].undo == f"mv {tmp_path}/journal.sqlite.aside {tmp_path}/journal.sqlite"


def test_the_last_slot_of_a_unit(tmp_path: Path) -> None:
    with journal(tmp_path, slots=3):
        booked = [
            last_entry(tmp_path / "journal.sqlite", *who) for who in ((None, "42"), ("slurm", "cfd"), ("oar", "42"))
        ]

    assert [slot_and_entry[0].seq if slot_and_entry else None for slot_and_entry in booked] == [3, 3, None]


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no database at all" * 1000)

    with pytest.raises(JournalError):
        last_entry(tmp_path / "journal.sqlite", None, "42")


def test_tokens_are_their_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o644)
    (tmp_path / "ledger-token").write_text("secret")
    (tmp_path / "ledger-token").chmod(0o600)

    checks = found(CHECKS, here_in(tmp_path))

    assert checks["token"].state is CheckState.FAILED
    assert checks["token"].remedies[0].command == f"chmod 600 {tmp_path}/token"
    assert checks["token"].remedies[0].undo == f"chmod 644 {tmp_path}/token"
    assert checks["ledger_token"].state is CheckState.OK
    assert "secret" not in str(checks)


def test_packages_of_the_server(tmp_path: Path) -> None:
    check = found(CHECKS, here_in(tmp_path, has_module=lambda name: name != "duckdb"))["packages"]

    assert check.state is CheckState.MISSING
    assert "kwhere[server]" in check.remedies[0].command
    assert check.remedies[0].undo is not None
    assert check.remedies[0].undo.endswith("uninstall -y duckdb")


@pytest.mark.parametrize(
    ("zone", "proposed", "says", "state"),
    [
        ("FR", "DE", "FR", CheckState.OK),
        (None, "DE", "DE, not confirmed", CheckState.MISSING),
        (None, None, "not set", CheckState.MISSING),
    ],
)
def test_the_zone(tmp_path: Path, zone: str | None, proposed: str | None, says: str, state: CheckState) -> None:
    check = found(CHECKS, here_in(tmp_path, zone=zone, proposed_zone=proposed))["emission_zone"]

    assert (check.found, check.state) == (says, state)


def test_the_zone_that_the_server_reports_with(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:9811\n")
    factors = [
        {"zone": "FR", "grams_per_kwh": 23.4, "provider": "rte", "reporting": False},
        {"zone": "FR", "grams_per_kwh": 55.94, "provider": "static", "reporting": True},
    ]

    check = found(CHECKS, here_in(tmp_path, ask_server=lambda _: {"items": factors}))["emission_zone"]

    assert (check.found, check.state) == ("FR, 55.9 g/kWh by static", CheckState.OK)


def answering(answer: dict[str, Any] | Exception) -> Any:
    """Return what answers any question so."""

    def ask(_: object) -> dict[str, Any]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"ok": True, "node": "n1", "version": "0.1"}, CheckState.OK),
        (Unavailable("refused", "no"), CheckState.MISSING),
        (Unavailable("timeout", "slow"), CheckState.WARNING),
        (NotPermitted("too many callers"), CheckState.WARNING),
    ],
)
def test_the_agent(tmp_path: Path, answer: dict[str, Any] | Exception, state: CheckState) -> None:
    here: Here = here_in(tmp_path, ask_agent=answering(answer))

    assert found(CHECKS, here)["agent"].state is state


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"status": "ok", "reasons": []}, CheckState.OK),
        ({"status": "degraded", "reasons": ["2 slots are in quarantine"]}, CheckState.WARNING),
        (Unavailable("refused", "no"), CheckState.MISSING),
        (NotPermitted("401"), CheckState.WARNING),
    ],
)
def test_the_server(tmp_path: Path, answer: dict[str, Any] | Exception, state: CheckState) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:9811\n")

    check = found(CHECKS, here_in(tmp_path, ask_server=answering(answer)))["server"]

    assert check.state is state
