"""`kwhere units` in sacct's manner: selection, fields, outputs, and why a list is empty."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command_api import CommandApi, Query
from tests.unit.cli.job_units import JOB, PLAIN, waiting

from kwhere.cli.main import run_root

ESTIMATED = {**PLAIN, "unit": "77", "user": "carol", "name": "a|b", "method": "modelled", "energy_joules_total": 7200.0}
GPUS_AND_MONEY_IN_80 = """\
UNIT    USER   STATE         kWh  g CO2e  GPUS  GPU %      EUR  NAME
4200_1  alice  completed    3.80     213     2     38    0.760  train resnet
4243    bob    failed     0.0150   0.840     –      –  0.00300  preprocess
"""


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "80")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[CommandApi]:
    with CommandApi(tmp_path) as found:
        found.lists("/units", JOB, PLAIN)
        yield found


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs `kwhere units` and returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_root(["units", *arguments, "--state-dir", str(tmp_path)])
        return code, *capsys.readouterr()

    return run


def test_gpus_and_money_fit_80_columns(api: CommandApi, ask: Any) -> None:
    code, out, err = ask()

    assert (code, out, err) == (0, GPUS_AND_MONEY_IN_80, "")


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        pytest.param(["-j", "123_4,200-210"], {"job": "123_4,200-210"}, id="jobs"),
        pytest.param(["-j", "1", "-j", "2", "3.batch"], {"job": "3.batch,1,2"}, id="jobs in three places"),
        pytest.param(["-j", "out/slurm-40_2.out"], {"job": "40_2"}, id="a job's output file"),
        pytest.param(["-s", "FAILED,timeout"], {"state": "FAILED,timeout"}, id="states"),
        pytest.param(["-r", "gpu"], {"queue": "gpu"}, id="partition"),
        pytest.param(["--queue", "gpu"], {"queue": "gpu"}, id="queue"),
        pytest.param(["-u", "alice", "-A", "aero", "-M", "hpc1", "-m", "slurm", "-N", "n1"],
                     {"user": "alice", "project": "aero", "cluster": "hpc1", "manager": "slurm", "node": "n1"},
                     id="who and where"),
        pytest.param(["-S", "2026-11-01", "-E", "2026-11-02T12:00"],
                     {"from": "2026-11-01T00:00:00Z", "to": "2026-11-02T12:00:00Z"}, id="times"),
        pytest.param(["--running", "-S", "2026-11-01"], {"running": "true"}, id="case_ceems_271"),
        pytest.param(["--sort", "power"], {"sort": "-power_watts", "state": "running"}, id="by power: what draws some"),
        pytest.param(["--sort", "+start"], {"sort": "started_at"}, id="smallest first"),
        pytest.param(["--sort", "started_at", "--ascending"], {"sort": "started_at"}, id="ascending"),
        pytest.param(["-a", "-X", "-D"], {"sort": "-energy_joules"}, id="what sacct needs to be told"),
    ],
)  # fmt: skip
def test_filters_are_asked_of_the_server(
    api: CommandApi, ask: Any, arguments: list[str], asked: dict[str, str]
) -> None:
    assert ask(*arguments)[0] == 0

    (question,) = api.questions("/units")
    assert asked.items() <= question.items()


def test_ids_may_come_from_stdin(api: CommandApi, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("12 13\n14_2\n"))

    ask("-j", "-")

    assert api.questions("/units")[0]["job"] == "12,13,14_2"


def test_several_users_and_accounts_are_one_list_in_one_order(api: CommandApi, ask: Any) -> None:
    by_user: dict[str, list[float | None]] = {"alice": [1.0, 9.0], "bob": [5.0], "carol": [None, 3.0]}

    def answer(query: Query) -> tuple[int, object]:
        values = sorted(by_user[query["user"]], key=lambda value: (value is None, -(value or 0)))
        items = [{**PLAIN, "user": query["user"], "energy_joules_total": value} for value in values]
        return 200, {"items": items, "next": None}

    api.routes["/units"] = answer

    _, out, _ = ask("-u", "alice,bob,carol", "-A", "vision", "--csv", "-o", "user,energy_joules")

    assert out.splitlines()[1:] == ["alice,9.0", "bob,5.0", "carol,3.0", "alice,1.0", "carol,"]
    assert {query["project"] for query in api.questions("/units")} == {"vision"}


def test_a_list_of_nodes_is_as_slurm_writes_it_and_names_each_unit_once(api: CommandApi, ask: Any) -> None:
    on = {"n1": ["1", "3"], "n2": ["1", "2"], "n3": ["3"], "m7": []}
    api.routes["/units"] = lambda query: (
        200,
        {"items": [{**PLAIN, "unit": unit} for unit in on[query["node"]]], "next": None},
    )

    _, out, _ = ask("-N", "n[1-3],m7", "-n", "--csv", "-o", "unit")

    assert sorted(out.split()) == ["1", "2", "3"]
    assert {query["node"] for query in api.questions("/units")} == {"n1", "n2", "n3", "m7"}


@pytest.mark.parametrize("nodes", ["n[1-", "n[3-1]", "n[1-1000]", "n[a]"])
def test_what_is_no_list_of_nodes_is_a_mistyped_command(api: CommandApi, ask: Any, nodes: str) -> None:
    code, out, err = ask("-N", nodes)

    assert (code, out) == (2, "")
    assert "--nodelist: " in err


def test_all_clusters_are_no_cluster_of_that_name(api: CommandApi, ask: Any) -> None:
    ask("-M", "all")

    assert "cluster" not in api.questions("/units")[0]


def test_pages_are_followed_by_their_key_until_the_limit(api: CommandApi, ask: Any) -> None:
    def answer(query: Query) -> tuple[int, object]:
        first = int(query.get("after", "0"))
        size = min(int(query["limit"]), 1000)
        items = [{**PLAIN, "unit": str(n)} for n in range(first, min(first + size, 2500))]
        return 200, {"items": items, "next": str(first + size) if first + size < 2500 else None}

    api.routes["/units"] = answer

    _, out, err = ask("-n", "--csv", "-o", "unit")
    assert out.splitlines() == [str(n) for n in range(2500)]
    assert err == ""
    _, out, err = ask("-n")
    assert len(out.splitlines()) == 20
    assert err == "the first 20 units; --limit 0 lists all that match\n"
    assert ask("-n", "--limit", "1")[2] == "the first unit; --limit 0 lists all that match\n"
    assert len(ask("-n", "--limit", "0")[1].splitlines()) == 2500
    assert len(ask("-n", "--limit", "7", "--csv")[1].splitlines()) == 7


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        pytest.param(
            "id,name%20,state%-12,elapsed",
            [
                "id                      name  state         elapsed_seconds",
                "4200_1          train resnet  completed            04:00:00",
                "4243              preprocess  failed               00:30:00",
            ],
            id="widths",
        ),
        pytest.param(
            "JobID,JobName%6,Start,CPUTime", None, id="a field that there is not"
        ),
        pytest.param(
            "jobid,account,Start,NNodes",
            [
                "id      project  started_at           node_count",
                "4200_1  vision   2026-11-29T12:00:00           2",
                "4243    vision   2026-11-29T10:00:00           1",
            ],
            id="sacct's names",
        ),
        pytest.param(
            "name%5",
            [" name", "trai+", "prep+"],
            id="cut with a plus",
        ),
    ],
)  # fmt: skip
def test_fields_are_chosen_as_with_sacct(api: CommandApi, ask: Any, fields: str, lines: list[str] | None) -> None:
    code, out, err = ask("--format", fields)

    if lines is None:
        assert code == 2
        assert "--helpformat lists, found 'CPUTime'" in err
    else:
        assert out.splitlines() == lines


def test_a_plus_adds_a_field(api: CommandApi, ask: Any) -> None:
    _, out, _ = ask("-P", "-o", "+queue,nodes")
    header, job, _ = out.splitlines()

    assert header.startswith("cluster|manager|unit|")
    assert header.endswith("|queue|nodes")
    assert job.endswith("|gpu|n1 n2")
    assert ask("-o", "+queue")[1].splitlines()[0].split()[-1] == "queue"


def test_names_with_delimiters_stay_whole_case_users_36(api: CommandApi, ask: Any) -> None:
    api.lists("/units", {**PLAIN, "name": "a|b"}, {**PLAIN, "name": "x,\ny"})

    parsable = list(csv.reader(io.StringIO(ask("-P", "-n", "-o", "name,user")[1]), delimiter="|"))
    comma = list(csv.reader(io.StringIO(ask("--csv", "-n", "-o", "name,user")[1])))
    other = ask("-P", "-n", "--delimiter", ";", "-o", "unit,user")[1]

    assert parsable == comma == [["a|b", "bob"], ["x,\ny", "bob"]]
    assert other == "4243;bob\n4243;bob\n"


def test_json_and_yaml_have_all_or_the_chosen_fields(api: CommandApi, ask: Any) -> None:
    whole = json.loads(ask("--json")[1])
    chosen = json.loads(ask("--json", "-o", "id,elapsed_seconds,cost")[1])

    assert whole == {"schema_version": 1, "items": [JOB, PLAIN]}
    assert chosen["items"][0] == {"id": "4200_1", "elapsed_seconds": 14_400.0, "cost": 0.76}
    assert yaml.safe_load(ask("--yaml")[1]) == whole


def test_an_error_on_a_later_page_leaves_a_document_with_what_came(api: CommandApi, ask: Any) -> None:
    def answer(query: Query) -> tuple[int, object]:
        if "after" in query:
            return 503, {"detail": "the database is away"}
        return 200, {"items": [PLAIN], "next": "more"}

    api.routes["/units"] = answer

    code, out, err = ask("--json")

    document = json.loads(out)
    assert code == 1
    assert [item["unit"] for item in document["items"]] == ["4243"]
    assert "the database is away" in document["errors"][0]["text"]
    assert "the database is away" in err


def test_estimates_are_marked_where_others_are_not(api: CommandApi, ask: Any) -> None:
    api.lists("/units", PLAIN, ESTIMATED)

    _, out, err = ask()

    assert out.splitlines()[2].split()[4] == "~2.00"
    assert err == "~ energy is estimated (method modelled): no meter was readable there\n"


@pytest.mark.parametrize("word", ["pending", "waiting", "Waiting"])
def test_what_waits_is_listed_by_its_state(api: CommandApi, ask: Any, word: str) -> None:
    api.lists("/queue", {**waiting("4300"), "reason": "Priority"})

    _, alone, _ = ask("-s", word, "-u", "alice", "-o", "id,state,reason", "-P", "-n")
    _, both, _ = ask("-s", "PD,running", "-o", "id,state", "-P", "-n")

    assert alone == "4300|pending|Priority\n"
    assert api.questions("/queue")[0]["user"] == "alice"
    assert both.splitlines()[0] == "4300|pending"
    assert api.questions("/units")[-1]["state"] == "running"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param("accounting is off on this cluster", "accounting is off on this cluster", id="case_users_45_off"),
        pytest.param("this user may not ask", "this user may not ask", id="case_users_45_no_permission"),
    ],
)
def test_an_empty_list_says_which_manager_cannot_be_read(api: CommandApi, ask: Any, fault: str, said: str) -> None:
    api.lists("/units")
    state = {"cluster": "hpc1", "manager": "slurm", "error": fault, "error_since": "2026-11-29T10:00:00Z"}
    api.lists(
        "/managers", {**state, "good_until": None}, {**state, "cluster": "hpc2", "error": None, "good_until": "x"}
    )

    code, out, err = ask("-M", "hpc1")

    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "no units match; a new one shows after its first slot",
        f"slurm of hpc1 cannot be read since 2026-11-29T10:00:00: {said}",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-s", "pending"], "nothing waits in a queue that is read"),
        (["-S", "2026-11-01"], "no units match that were alive after 2026-11-01T00:00:00"),
        (
            ["-S", "2026-11-01", "-E", "2026-11-02T12:00"],
            "no units match that were alive after 2026-11-01T00:00:00 and before 2026-11-02T12:00:00",
        ),
    ],
)
def test_an_empty_list_says_what_there_is_none_of(api: CommandApi, ask: Any, arguments: list[str], said: str) -> None:
    api.lists("/units")
    api.lists("/queue")

    assert ask(*arguments) == (0, "", f"{said}\n")


def test_a_list_of_a_span_says_which_and_that_figures_are_of_whole_lives(api: CommandApi, ask: Any) -> None:
    assert ask("-S", "2026-11-01")[2] == ("units alive after 2026-11-01T00:00:00; figures are of their whole lives\n")
    assert ask("-S", "2026-11-01", "--csv")[2] == ""


def test_a_list_that_may_lack_units_says_so(api: CommandApi, ask: Any) -> None:
    state = {"cluster": "hpc1", "manager": "slurm", "error": "slurmdbd is away", "error_since": None}
    api.lists("/managers", {**state, "good_until": "2026-11-29T10:00:00Z"})

    _, out, err = ask()

    assert "4200_1" in out
    assert err == (
        "the list may lack units: slurm of hpc1 cannot be read: slurmdbd is away; known until 2026-11-29T10:00:00\n"
    )
    assert ask("-M", "hpc2")[2] == ""
    assert ask("--csv")[2] == ""


def test_an_id_that_is_nowhere_is_exit_code_1(api: CommandApi, ask: Any) -> None:
    api.lists("/units")

    code, _, err = ask("-j", "99")

    assert (code, err) == (1, "no unit has one of the ids 99\n")


def test_units_of_others_are_not_permitted_rather_than_absent(api: CommandApi, ask: Any) -> None:
    asker = {"name": "alice", "everything": False, "users": ["alice"], "projects": [], "sees": "their own units"}
    api.lists("/units")
    api.tells("/whoami", {**asker, "contact": "help@example.org"})

    code, out, err = ask("-u", "bob")

    assert (code, out) == (1, "")
    assert err == (
        "not permitted: user bob: alice sees their own units; all others need the role operator or auditor: "
        "ask help@example.org\n"
    )
    assert ask("-u", "alice")[0] == 0


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, 1, "not permitted: a reason"),
        (403, 1, "not permitted: a reason"),
        (404, 1, "a reason"),
        (400, 2, "a reason"),
        (422, 2, "a reason"),
        (500, 1, "a reason"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(api: CommandApi, ask: Any, status: int, code: int, said: str) -> None:
    api.refuses("/units", status, "a reason")

    done, out, err = ask()

    assert (done, out) == (code, "")
    assert said in err
    assert ("not permitted" in err) == (status in (401, 403))


def test_a_server_that_refuses_a_token_says_why(api: CommandApi, ask: Any) -> None:
    api.routes["/units"] = lambda _: (401, {"title": "Token refused", "detail": "it has expired"})

    code, _, err = ask()

    assert code == 1
    assert "not permitted: it has expired; name the file of an access token with --token-file" in err


def test_a_token_sent_in_vain_is_told_from_none(api: CommandApi, ask: Any) -> None:
    api.routes["/units"] = lambda _: (401, {"title": "Access token needed", "detail": "open the page"})

    code, _, err = ask()

    assert code == 1
    assert "not permitted: it does not know the token that was sent; name the file of an access token" in err
    assert "a-token-of-the-test" not in err


def test_no_token_is_no_wrong_one(api: CommandApi, ask: Any, tmp_path: Path) -> None:
    (tmp_path / "token").unlink()

    _, _, err = ask()

    assert "not permitted: name the file of an access token with --token-file" in err


@pytest.mark.parametrize("name", ["--state", "--state-dir"])
def test_a_unit_is_asked_for_with_either_name_of_the_state_directory(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    api.tells("/units/hpc1/slurm/4243", PLAIN)

    assert run_root(["unit", "hpc1/slurm/4243", name, str(tmp_path)]) == 0
    assert "Unit: slurm 4243" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sort", "colour"],
        ["--format", ""],
        ["-S", "soon"],
        ["--delimiter", "::"],
        ["--limit", "-1"],
        ["-o", "name%x"],
    ],
)
def test_wrong_usage_is_exit_code_2(api: CommandApi, ask: Any, arguments: list[str]) -> None:
    code, out, _ = ask(*arguments)

    assert (code, out) == (2, "")
    assert api.asked == []


def test_helpformat_names_every_field_with_its_unit(ask: Any) -> None:
    _, out, _ = ask("--helpformat")
    lines = out.splitlines()

    assert lines[0].split() == ["FIELD", "UNIT", "SACCT", "MEANING"]
    assert "energy_joules" in out
    assert any(line.split()[:3] == ["elapsed_seconds", "s", "elapsed"] for line in lines)


def test_at_80_columns_a_pods_name_is_read_and_its_id_is_short(api: CommandApi, ask: Any) -> None:
    pod = {
        **PLAIN,
        "manager": "kubernetes",
        "unit": "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa",
        "user": "grace@example.org",
        "name": "etl-nightly-28471920-22ecc",
        "power_watts": 31.0,
    }
    api.lists("/units", pod)

    line = ask()[1].splitlines()[1]

    assert len(line) <= 80
    assert "7f9c24e8 " in line
    assert line.rpartition("  ")[2].startswith("etl-nightly-284")
    assert "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa" in ask("--no-trunc")[1]


def test_nothing_is_cut_when_piped_or_told_so(api: CommandApi, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-name-that-is-longer-than-what-is-left-of-eighty-columns"
    api.lists("/units", {**JOB, "name": name})
    assert name not in ask()[1]
    assert "a-name-that-is" in ask()[1]
    assert name in ask("--no-trunc")[1]
    monkeypatch.delenv("COLUMNS")
    assert name in ask()[1]


@pytest.mark.parametrize("command", ["units", "unit 4243", "report", "nodes", "factors"])
def test_a_user_needs_no_server_part(api: CommandApi, tmp_path: Path, command: str) -> None:
    api.tells("/units/hpc1/slurm/4243", PLAIN)
    api.tells("/usage", {"by": "user", "span": {"from": "a", "to": "b"}, "items": []})
    api.lists("/nodes")
    api.lists("/emission-factors")
    code = (
        "import sys\nfrom kwhere.local.server_part import SERVER_MODULES\n"
        "sys.modules.update(dict.fromkeys(SERVER_MODULES))\n"
        "from kwhere.cli.main import run_root\nsys.exit(run_root(sys.argv[1:]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--json" if command != "nodes" else "list"],
        env={**os.environ, "KWHERE_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (0, "")
