"""`kwhere unit`: the report worked out by hand, and what an id may look like."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.command_api import CommandApi, Query
from tests.unit.cli.job_units import JOB, PLAIN, waiting

from kwhere.cli.client import Json
from kwhere.cli.main import run_root
from kwhere.cli.unit_page import report

POD_UID = "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa"
TASK = {**PLAIN, "unit": "4245", "labels": {"job": "4200_2", "array_job": "4200"}}
POD = {
    **PLAIN,
    "cluster": "k8s",
    "manager": "kubernetes",
    "unit": POD_UID,
    "run": POD_UID,
    "name": "nb-7-0",
    "labels": {"kube_namespace": "ml", "kube_pod": "nb-7-0"},
}
KNOWN: list[dict[str, Any]] = [JOB, PLAIN, TASK, POD]
PAGE = """\
================================================================================
          Unit: slurm 4242 (4200_1)
          Name: train resnet
  User/Project: alice/vision
         State: completed
         Queue: gpu
         Nodes: 2: n1, n2
          CPUs: 32
        Memory: 128 GiB (4.00 GiB per CPU)
          GPUs: 2 × NVIDIA H100 80GB HBM3
     Submitted: 2026-11-29 11:00:00 UTC
       Started: 2026-11-29 12:00:00 UTC
         Ended: 2026-11-29 16:00:00 UTC
      Run time: 04:00:00
       Cluster: hpc1
--------------------------------------------------------------------------------
           CPU: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇                    ]  50.0 %  64.0 CPU-h
   Memory peak: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇                    ]  50.0 %  64.0 GiB
     Power now: –
  n1
           CPU: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇      ]  75.0 %  48.0 CPU-h  1.90 kWh
        Memory: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇      ]  75.0 %  48.0 GiB of 64.0 GiB
         GPU 0: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇      ]  75.0 %  60.0/80.0 GiB  1.40 kWh
  n2
           CPU: [▇▇▇▇▇▇                  ]  25.0 %  16.0 CPU-h  1.90 kWh
        Memory: [▇▇▇▇▇▇                  ]  25.0 %  16.0 GiB of 64.0 GiB
         GPU 0: [                        ]   0.0 %  –/80.0 GiB  1.40 kWh
 GPUs together: 37.5 % busy of the time held
       Held by: a file of the scheduler's prolog
--------------------------------------------------------------------------------
COMPONENT  dynamic kWh  idle kWh  METHOD              share
cpu              0.800     0.200  counter (powercap)  ▇▇▇▇▇
dram                 –         –
gpu               2.50     0.300  counter (nvml)      ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
other                –         –
        Energy: 3.80 kWh, method counter
          CO2e: 213 g at 56.0 g/kWh with PUE (zone FR, static, average)
          Cost: 0.760 EUR
--------------------------------------------------------------------------------
       Finding: held n2 GPU 0 idle for 04:00:00, 1.40 kWh; never used it: ask
                for fewer GPUs
          Note: gap: part of the time was not measured
================================================================================
"""


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[CommandApi]:
    with CommandApi(tmp_path) as found:
        found.routes["/units"] = answer
        for item in KNOWN:
            path = "/units/" + "/".join((item["cluster"], item["manager"], item["unit"]))
            found.tells(path, item)
            found.tells(f"{path}/runs", whole_of("runs", item, item))
        yield found


def whole_of(kind: str, total: Json, *parts: Json, unknown: int = 0) -> Json:
    """Return a job of several parts as the API has it."""
    states = {state: sum(part["state"] == state for part in parts) for state in (part["state"] for part in parts)}
    return {"kind": kind, "unit": total, "parts": list(parts), "states": states, "unknown": unknown}


def answer(query: Query) -> tuple[int, object]:
    """Answer as the API: `job` finds ids, shown ids and arrays, `name` whole names, `q` parts of names."""
    words = query.get("job", "").split(".")[0]
    if "_[" in words:
        return 400, {"detail": "job: not this time"}
    found = [
        item
        for item in KNOWN
        if (words and words in (item["unit"], item["labels"].get("job"), item["labels"].get("array_job")))
        or query.get("name", "–") == item["name"]
        or ("q" in query and query["q"] in f"{item['unit']} {item['name']}")
    ]
    return 200, {"items": found, "next": None}


def test_the_report_worked_out_by_hand() -> None:
    assert "\n".join(report(JOB)) + "\n" == PAGE
    assert max(map(len, PAGE.splitlines())) <= 80


@pytest.mark.parametrize(
    ("ident", "unit"),
    [
        pytest.param("4243", "4243", id="number"),
        pytest.param("4200_2", "4245", id="case_users_27_task"),
        pytest.param("4243.batch", "4243", id="case_users_25_step"),
        pytest.param("slurm/4243", "4243", id="manager and id"),
        pytest.param("hpc1/4243", "4243", id="cluster and id"),
        pytest.param("hpc1/slurm/4243", "4243", id="cluster, manager and id"),
        pytest.param("preprocess", None, id="a name that several have"),
        pytest.param("nb-7-0", POD_UID, id="pod"),
        pytest.param("ml/nb-7-0", POD_UID, id="namespace and pod"),
        pytest.param("train resnet", "4242", id="name"),
        pytest.param(POD_UID[:8], POD_UID, id="the beginning of a pod's uid, as lists show it"),
    ],
)
def test_an_id_is_found_as_people_write_it(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], ident: str, unit: str | None
) -> None:
    code = run_root(["unit", ident, "--json", "--state-dir", str(tmp_path)])

    out, err = capsys.readouterr()
    if unit is None:
        assert code == 1
        assert "several units have this id" in err
        assert "hpc1/slurm/4243, hpc1/slurm/4245" in err
    else:
        assert (code, json.loads(out)["unit"]) == (0, unit)


def test_a_name_is_looked_up_before_anything_is_searched_for(api: CommandApi, tmp_path: Path) -> None:
    assert run_root(["unit", "nb-7-0", "--json", "--state-dir", str(tmp_path)]) == 0

    assert [query["name"] for query in api.questions("/units") if "name" in query] == ["nb-7-0"]
    assert not any("q" in query for query in api.questions("/units"))


TOTAL = {
    **JOB,
    "unit": "4200",
    "labels": {"array_job": "4200"},
    "energy_joules_total": 13_752_000.0,
    "emissions_grams": 213.8,
    "cpu_seconds": {"user": 237_600.0, "system": 0.0},
    "cpu_efficiency_ratio": 0.51,
    "memory_efficiency_ratio": 0.52,
    "elapsed_seconds": 16_200.0,
}


def test_the_number_of_an_array_lists_its_tasks_with_their_spread_and_sum(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.tells("/units/hpc1/slurm/4200/parts", whole_of("array", TOTAL, JOB, TASK, unknown=1))

    assert run_root(["unit", "4200", "--state-dir", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [task in line.split()[:2] for task, line in zip(("4200_2", "4200_1"), lines[1:3], strict=True)] == [
        True,
        True,
    ]
    assert [line.split() for line in lines[-9:]] == [
        ["2", "TASKS", "MIN", "MEDIAN", "MAX", "OF", "SUM"],
        ["energy", "kWh", "0.0150", "1.91", "3.80", "2", "3.82"],
        ["CO2e", "g", "0.840", "107", "213", "2", "214"],
        ["CPU", "time", "CPU-h", "2.00", "33.0", "64.0", "2", "66.0"],
        ["CPU", "50.0", "%", "75.0", "%", "100.0", "%", "2", "51.0", "%"],
        ["memory", "50.0", "%", "62.5", "%", "75.0", "%", "2", "52.0", "%"],
        ["run", "time", "00:30:00", "02:15:00", "04:00:00", "2", "04:30:00"],
        ["1", "completed,", "1", "failed"],
        ["of", "1", "nobody", "knows", "the", "energy:", "the", "sum", "lacks", "it"],
    ]


def test_the_sum_of_an_array_stands_in_the_json_too(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.tells("/units/hpc1/slurm/4200/parts", whole_of("array", TOTAL, JOB, TASK))

    run_root(["unit", "4200", "--json", "--state-dir", str(tmp_path)])

    document = json.loads(capsys.readouterr().out)
    assert [item["unit"] for item in document["items"]] == ["4245", "4242"]
    assert (document["sum"]["energy_joules_total"], document["states"]) == (13_752_000.0, {"completed": 1, "failed": 1})


def test_an_array_too_large_to_be_added_up_is_listed_all_the_same(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refuses("/units/hpc1/slurm/4200/parts", 404, "expected at most 5000 parts to add up, found more")

    assert run_root(["unit", "4200", "--state-dir", str(tmp_path)]) == 0

    out, err = capsys.readouterr()
    assert "no sum: " in err
    assert "2 TASKS" in out
    assert "SUM" not in out


def het(api: CommandApi) -> None:
    """Let 4250 be a heterogeneous job: 4250+0 used 1 MJ, 4250+1 2 MJ."""
    parts = [
        {
            **PLAIN,
            "unit": f"425{n}",
            "energy_joules_total": (n + 1) * 1e6,
            "labels": {"job": f"4250+{n}", "het_job": "4250"},
        }
        for n in range(2)
    ]
    total = {**parts[0], "unit": "4250", "energy_joules_total": 3e6, "labels": {"het_job": "4250"}}
    api.lists("/units", *parts)
    api.tells("/units/hpc1/slurm/4250/parts", whole_of("heterogeneous", total, *parts))


def test_case_users_26_a_heterogeneous_job_is_one_report(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    het(api)

    assert run_root(["unit", "4250", "--state-dir", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "          Unit: slurm 4250" in lines
    assert "    Components: 2, added up: `kwhere unit 4250+1` shows one" in lines
    assert "        Energy: 833 Wh, method counter" in lines
    table = [line.split() for line in lines if line.startswith("4250+")]
    assert [(row[0], row[-1]) for row in table] == [("4250+0", "278"), ("4250+1", "556")]
    assert max(map(len, lines)) <= 80


def test_case_users_26_a_heterogeneous_job_is_one_object_and_one_row(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    het(api)

    run_root(["unit", "4250", "--json", "--state-dir", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    run_root(["unit", "4250", "--csv", "--state-dir", str(tmp_path)])
    rows = capsys.readouterr().out.splitlines()

    assert (document["unit"], document["kind"], document["energy_joules_total"]) == ("4250", "heterogeneous", 3e6)
    assert [part["unit"] for part in document["parts"]] == ["4250", "4251"]
    assert len(rows) == 2


def test_a_unit_that_waits_says_so(api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api.lists("/queue", {**waiting("4300"), "reason": "Priority"})

    assert run_root(["unit", "4300", "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "kwhere: unit 4300: it has not begun; it waits in gpu: Priority\n"


def test_an_error_stands_in_the_json_too(api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["unit", "77", "--json", "--state-dir", str(tmp_path)]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["items"] == []
    assert document["errors"][0]["kind"] == "not_found"


def test_what_may_not_be_seen_is_not_permitted(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refuses("/units", 403, "units of others need the role operator")

    assert run_root(["unit", "4243", "--state-dir", str(tmp_path)]) == 1
    assert "not permitted: units of others need the role operator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param(
            {"cpu_efficiency_ratio": 0.0}, f"           CPU: [{'':40}]   0.0 %  2.00 CPU-h", id="case_users_10"
        ),
        pytest.param(
            {"cpu_efficiency_ratio": None}, f"           CPU: [{'':40}]       –  2.00 CPU-h", id="case_users_9"
        ),
        pytest.param(
            {"cpu_efficiency_ratio": 15.93}, f"           CPU: [{'▇' * 40}! 1593.0 %  2.00 CPU-h", id="case_users_12"
        ),
        pytest.param(
            {"allocation": {"cpus": 4.0, "memory_bytes": None, "gpus": {}}, "memory_efficiency_ratio": None},
            "        Memory: –",
            id="case_users_4",
        ),
        pytest.param(
            {"started_at": "2026-11-28T09:00:00Z", "ended_at": "2026-11-29T11:03:04Z"},
            "      Run time: 1-02:03:04",
            id="case_users_53",
        ),
        pytest.param({"elapsed_seconds": 60.0}, "      Run time: 00:01:00", id="case_users_35"),
        pytest.param({"user": None}, "  User/Project: –/vision", id="nobody"),
        pytest.param({"name": "evil\x1b[2Jname"}, "          Name: evil\ufffd[2Jname", id="no escape sequences"),
    ],
)
def test_figures_are_shown_as_they_are(changes: dict[str, Any], line: str) -> None:
    assert line in report({**PLAIN, **changes})


@pytest.mark.parametrize(("state", "so_far"), [("running", "in progress"), ("shut off", "shut off now")])
def test_of_what_has_not_ended_the_time_says_what_it_is(state: str, so_far: str) -> None:
    changes = {"ended_at": None, "elapsed_seconds": 60.0, "state": state}

    assert f"      Run time: 00:01:00 ({so_far})" in report({**PLAIN, **changes})


def test_nothing_measured_is_no_zero() -> None:
    none = dict.fromkeys(("energy_joules_total", "emissions_grams", "method", "cpu_seconds"))
    unreported = {**PLAIN, **none, "energy_joules": {"total": None}, "emissions": [], "quality": ["unreported"]}

    lines = report(unreported)

    assert "        Energy: –, method –" in lines
    assert "          CO2e: –" in lines


@pytest.mark.parametrize("count", [1, 60])
def test_any_number_of_nodes_and_any_name_fits_80_columns(count: int) -> None:
    nodes = [f"a-rather-long-node-name-{n:04d}.cluster.example.org" for n in range(count)]
    runs = [{**JOB["node_runs"][0], "node": node} for node in nodes]

    lines = report({**JOB, "name": "x" * 300, "user": "日本" * 40, "nodes": nodes, "node_runs": runs, "gpus": []})

    assert max(map(len, lines)) <= 80


def test_the_page_in_a_browser_is_named(api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["unit", "4243", "--state-dir", str(tmp_path)])

    url = (tmp_path / "url").read_text().strip()
    assert f"          Page: {url}/units/hpc1/slurm/4243" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("flags", "environ", "is_coloured"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    api: CommandApi, tmp_path: Path, flags: list[str], environ: dict[str, str], is_coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    told = {**os.environ, "TERM": "xterm-256color", "KWHERE_STATE": str(tmp_path), "COLUMNS": "80"}
    told.pop("NO_COLOR", None)

    done = subprocess.run(
        [sys.executable, "-m", "kwhere", "units", "-j", "4243", "--no-trunc", *flags],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**told, **environ},
        check=False,
        timeout=30,
    )
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)

    assert done.returncode == 0
    assert ("\x1b[31mfailed\x1b[0m" in shown) is is_coloured
    assert ("\x1b" in shown) is is_coloured


def test_a_pipe_gets_no_colour(api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["units", "-j", "4243", "--state-dir", str(tmp_path)])
    assert "\x1b" not in capsys.readouterr().out

    run_root(["units", "-j", "4243", "--color", "always", "--state-dir", str(tmp_path)])
    assert "\x1b[31m" in capsys.readouterr().out


def test_case_users_22_a_requeued_job_is_the_sum_of_its_runs(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {**PLAIN, "run": "4243@1764400000", "started_at": "2026-11-29T07:00:00Z", "state": "requeued"}
    total = {**PLAIN, "energy_joules_total": 108_000.0, "started_at": first["started_at"]}
    api.lists("/units", PLAIN, first)
    api.tells("/units/hpc1/slurm/4243/runs", whole_of("runs", total, first, PLAIN))

    assert run_root(["unit", "4243", "--state-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "          Runs: 2, added up: --run shows one" in lines
    assert "        Energy: 30.0 Wh, method counter" in lines
    assert next(line.split()[:2] for line in lines if line.startswith("4243@")) == ["4243@1764400000", "requeued"]

    run_root(["unit", "4243", "--run", "4243@1764400000", "--json", "--state-dir", str(tmp_path)])
    assert api.questions("/units/hpc1/slurm/4243")[-1] == {"run": "4243@1764400000"}


def test_case_users_23_runs_of_a_reused_id_are_counted_and_not_added_up(
    api: CommandApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {**PLAIN, "run": "4243@1700000000", "started_at": "2023-11-14T07:00:00Z", "user": "bob"}
    api.lists("/units", PLAIN, first)

    run_root(["unit", "4243", "--state-dir", str(tmp_path)])

    assert "          Runs: 2: this is the newest, --run names another" in capsys.readouterr().out.splitlines()
