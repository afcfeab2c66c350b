"""`kwhere units` and `unit` as a user with an API token, against the real API behind its real door."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.account_site import SITE
from tests.databases import sqlite_engine
from tests.e2e.server_thread import serve
from tests.fake_account import FixedClock
from tests.managed_site import said, tell, turn_of
from tests.two_tenants import NOW, fill

from kwhere.access.guard import GuardRules
from kwhere.access.settings import AccessSettings
from kwhere.api.app import build_app
from kwhere.apps.door import build_doorman
from kwhere.cli.main import run_root
from kwhere.database.api_tokens import NewToken, create_token
from kwhere.database.manager_states import note_error
from kwhere.database.reader import Reader
from kwhere.reports.sources import Sources

pytestmark = pytest.mark.slow
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server over HTTP, and the file with a token of alice, who sees her own units alone."""
    place = tmp_path_factory.mktemp("site")
    engine, clock = sqlite_engine(place / "site.sqlite"), FixedClock(NOW)
    fill(engine, others=True)
    tell(engine, *(said(f"90{n}", 60, 600, user="alice", tags={"job": f"900_{n}", "array_job": "900"}) for n in (1, 2)))
    note_error(engine, turn_of(engine, clock.utc_ns()), "accounting is off on this cluster")
    alices = NewToken("alice", "user", "", clock.utc_ns() + 86_400 * 10**9)
    (place / "token").write_text(create_token(engine, alices, clock.utc_ns(), by="test"))
    (place / "token").chmod(0o600)
    access = AccessSettings(contact="hpc@example.org")
    doorman = build_doorman(access, engine, clock, "the-servers-own-token-of-the-test")
    sources = Sources(account=Reader(engine, clock, SITE), clock=clock, version="1")
    with serve(build_app(sources, GuardRules(), doorman)) as url:
        yield url, place / "token"
    engine.dispose()


@pytest.fixture
def run(server: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command as alice, or with another token."""
    url, alices = server

    def command(*words: str, token: Path = alices) -> tuple[int, str, str]:
        code = run_root([*words, "--server", url, "--token-file", str(token)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


def test_a_user_sees_their_own_and_is_told_so_of_others(run: Run) -> None:
    code, out, _ = run("units", "--json")
    assert code == 0
    assert {item["user"] for item in json.loads(out)["items"]} == {"alice"}

    code, out, err = run("units", "-u", "bob")
    assert (code, out) == (1, "")
    assert err.startswith("not permitted: user bob: alice sees their own units")
    assert "hpc@example.org" in err

    code, _, err = run("unit", "b-0")
    assert code == 1
    assert "not found" in err
    assert "bob" not in err


def test_what_only_its_manager_told_of_is_listed_without_figures(run: Run) -> None:
    _, out, _ = run("units", "-j", "silent", "-P", "-n", "-o", "id,state,energy_joules,quality")

    assert out == "silent|completed||unreported\n"
    assert "        Energy: –, method –" in run("unit", "silent")[1].splitlines()


def test_ids_states_and_arrays_by_the_real_api(run: Run) -> None:
    assert run("units", "-j", "900_2", "-P", "-n", "-o", "unit")[1] == "902\n"
    assert "2 TASKS" in run("unit", "900")[1]
    assert json.loads(run("unit", "900_1.batch", "--json")[1])["unit"] == "901"
    assert "w-alice" in run("units", "-s", "pending", "-P", "-n", "-o", "id")[1]
    assert "w-bob" not in run("units", "-s", "pending", "-P", "-n", "-o", "id")[1]
    assert run("units", "-s", "no such")[0] == 2


def test_a_token_that_is_none_is_not_permitted(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.write_text("kwt_0123456789abcdef0123456789abcdef")
    other.chmod(0o600)

    code, out, err = run("units", token=other)

    assert (code, out) == (1, "")
    assert "not permitted" in err
    assert "--token-file" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("report", "-u", "bob"), 1, "not permitted: user bob: alice sees their own units"),
        (("report", "-A", "projB", "--csv"), 1, "not permitted: project projB: alice sees their own units"),
        (("units", "-u", "alice,bob"), 1, "not permitted: user bob: alice sees their own units"),
        (("units", "-j", "105-100"), 2, "numbers '105-100': expected such as 9-11"),
        (("units", "-j", "1-5000"), 2, "expected a range of at most 1000 ids"),
        (("units", "-q", "x" * 1000), 2, "q: "),
        (("units", "-j", ","), 2, "--jobs: expected ids"),
        (("units", "-s", "pending", "-j", "123_["), 2, "job id: expected a number"),
        (("units", "-j", "w-alice0"), 1, "unit w-alice0: it has not begun; it waits in "),
        (("units", "-j", "77777"), 1, "no unit has one of the ids 77777"),
        (("unit", "77777"), 1, "unit 77777: not found"),
        (("unit", "c1/slurm/.."), 1, "unit c1/slurm/..: not found"),
        (("unit", "../../whoami"), 1, "unit ../../whoami: not found"),
    ],
)
def test_how_a_command_ends(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    ended, _, err = run(*words)

    assert ended == code
    assert said in err


def test_a_report_of_several_goes_on_after_one_that_is_not_there(run: Run) -> None:
    code, out, err = run("unit", "77777", "logs/slurm-900_1.out")

    assert code == 1
    assert "Unit: slurm 901 (900_1)" in out
    assert err == "kwhere: unit 77777: not found; `kwhere units -q 77777` searches parts of ids and names\n"


def test_what_waits_is_chosen_by_id_and_words(run: Run) -> None:
    def shown(*words: str) -> list[str]:
        return run("units", "-s", "pending", "-P", "-n", "-o", "id", *words)[1].split()

    assert shown("-j", "w-alice0") == ["w-alice0"]
    assert shown("-q", "name of w-alice0") == ["w-alice0"]
    assert shown("-j", "77777") == []


@pytest.mark.parametrize(("words", "kind"), [(("-u", "bob"), "not_permitted"), (("-j", "77777"), "not_found")])
def test_what_failed_stands_in_the_json(run: Run, words: tuple[str, ...], kind: str) -> None:
    code, out, _ = run("units", "--json", *words)

    document = json.loads(out)
    assert (code, document["items"], [error["kind"] for error in document["errors"]]) == (1, [], [kind])


@pytest.mark.parametrize("token", [b"", b"  \n", b"two words", b"caf\xe9", b"a\0b", "tök".encode()])
def test_what_is_no_token_is_not_permitted_and_not_shown(run: Run, tmp_path: Path, token: bytes) -> None:
    other = tmp_path / "token"
    other.write_bytes(token)

    code, out, err = run("units", token=other)

    assert (code, out) == (1, "")
    assert "not permitted" in err
    assert "words" not in err
