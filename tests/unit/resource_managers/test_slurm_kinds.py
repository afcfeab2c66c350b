"""What SLURM's programs write, by kind: inputs of the kinds of the field's cases that no report named.

From the manuals of sacct, squeue, scontrol, sinfo and gres.conf; a number or None, never a guess.
"""

from datetime import UTC, datetime

import pytest

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerUnit
from kwhere.discovery.node_expressions import expand_nodes
from kwhere.resource_managers.slurm_facts import parse_node_state, read_accounts, read_nodes
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_known import RecordReader
from kwhere.resource_managers.slurm_sacct import NEEDED, WANTED, Faults, Table
from kwhere.resource_managers.slurm_words import (
    Per,
    count_tasks,
    parse_duration,
    parse_gres,
    parse_job_id,
    parse_memory,
    parse_state,
    parse_time,
    parse_tres,
    step_of,
)

K = 1024
DELIMITER = "\x1f0badcafe\x1f"


@pytest.mark.parametrize(
    ("text", "size", "per"),
    [
        ("0Mc", 0, Per.CPU),
        ("0Mn", 0, Per.NODE),
        ("3.50Gn", 7 * K**3 // 2, Per.NODE),
        ("62.50Gc", 125 * K**3 // 2, Per.CPU),
        ("1.46T", int(1.46 * K**4), Per.JOB),
        ("2048Kc", 2 * K**2, Per.CPU),
        ("2gn", 2 * K**3, Per.NODE),
        ("7.8125G", 8000 * K**2, Per.JOB),
        ("0.25M", K**2 // 4, Per.JOB),
        ("100?", 100, Per.JOB),
        ("512B", 512, Per.JOB),
    ],
)
def test_kind_6_1_memory(text: str, size: int, per: Per) -> None:
    found = parse_memory(text)

    assert found is not None
    assert (found.size_bytes, found.per) == (size, per)


@pytest.mark.parametrize(
    "text", ["INFINITE", "NOT_SET", "18446744073709551614", "18446744073709551615M", "4294967294", "4294967295Mc"]
)
def test_kind_6_1_no_memory_is_unknown(text: str) -> None:
    assert parse_memory(text) is None


@pytest.mark.parametrize("text", ["16GB", "16MiB", "4G/node", "4Gcn", "16G+", "4 G", "1,024M", "0x10M", "~4G", "4G*2"])
def test_kind_6_1_what_is_no_memory_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-0", 86_400.0),
        ("1-02", 93_600.0),
        ("2-03:04", 183_840.0),
        ("00:00:00.001", 0.001),
        ("59:59.999", 3599.999),
        ("100-00:00:01", 8_640_001.0),
        ("120:00:00", 432_000.0),
        ("0:00", 0.0),
        ("1-00:00:00.5", 86_400.5),
        ("NOT_SET", None),
        ("INFINITE", None),
        ("4294967294", None),
        ("Partition_Limit", None),
        ("UNLIMITED", None),
    ],
)
def test_kind_6_1_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["10", "-1:00", "1+02:03:04", "1-", "1:", ":10", "1-02:", "1d2h", "10s", "1:2:3:4", "٣:٠٠"]
)
def test_kind_6_1_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "cpus", "memory", "gpus"),
    [
        ("cpu=2K,mem=2T", 2048.0, 2 * K**4, {}),
        ("cpu=1.50K", 1536.0, None, {}),
        ("mem=0,cpu=1", 1.0, None, {}),
        ("mem=18446744073709551614M", None, None, {}),
        ("cpu=4294967294", None, None, {}),
        ("cpu=18446744073709551614", None, None, {}),
        ("gres/gpu:a100(S:0-1)=2", None, None, {"a100": 2.0}),
        ("gres/gpu:a100=2(IDX:0,3),cpu=4", 4.0, None, {"a100": 2.0}),
        ("gres/gpu:=2", None, None, {"gpu": 2.0}),
        ("gres/gpu=4,gres/gpu:a100=2", None, None, {"a100": 2.0, "gpu": 2.0}),
        ("gres/gpu=0,gres/gpu:a100=0", None, None, {}),
        ("GRES/GPU:H100=8,CPU=96,MEM=1T,NODE=1", 96.0, K**4, {"H100": 8.0}),
        ("gres/gpu:nvidia_a100_1g.5gb=7", None, None, {"nvidia_a100_1g.5gb": 7.0}),
        ("gres/gpumem:a100=80G,gres/gpuutil:a100=100", None, None, {}),
        ("gres/gpu_mem=3,gres/gpus=2,gres/gpufoo=1", None, None, {}),
        ("license/gpu=2,fs/gpu=3,bb/gpu=1,interconnect/gpu=4", None, None, {}),
        ("billing=16,energy=18446744073709551614,pages=0,vmem=0", None, None, {}),
        ("gres/gpu:a100=-1,gres/gpu=1", None, None, {"gpu": 1.0}),
        ("cpu=8,,mem=4G,", 8.0, 4 * K**3, {}),
        ("(null)", None, None, {}),
        ("N/A", None, None, {}),
        ("cpu=x,mem=?,gres/gpu=y", None, None, {}),
        pytest.param("1=16,2=65536,3=0,4=2,5=16,1001=4", 16.0, 64 * K**3, {}, id="as_the_tables_of_slurmdbd_have_it"),
        pytest.param("gres/gpu:a100:2,cpu=4", 4.0, None, {"a100": 2.0}, id="case_users_21_colon"),
        pytest.param("gres:gpu=2", None, None, {"gpu": 2.0}, id="case_users_21_gres_colon"),
        pytest.param("gres/gpu:2", None, None, {"gpu": 2.0}, id="case_users_21_no_type"),
        ("gres/gpu=18446744073709551614,gres/gpu:a100=2", None, None, {"a100": 2.0}),
    ],
)
def test_kind_6_1_tres(text: str, cpus: float | None, memory: int | None, gpus: dict[str, float]) -> None:
    found = parse_tres(text)

    assert (found.cpus, found.memory_bytes, dict(found.gpus)) == (cpus, memory, gpus)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:a100:no_consume:2", {"a100": 2.0}),
        ("gpu:no_consume:2", {"gpu": 2.0}),
        ("gres:gpu:a100:2", {"a100": 2.0}),
        ("gres/gpu:2", {"gpu": 2.0}),
        ("gpu:a100:(null):2", {"a100": 2.0}),
        ("gpu:4(S:0-1),gpu:a100:1(IDX:7)", {"gpu": 4.0, "a100": 1.0}),
        ("gpu:-1", {}),
        pytest.param("gres/gpu:a100=2", {"a100": 2.0}, id="case_users_21_equals"),
        pytest.param("gres/gpu=2", {"gpu": 2.0}, id="case_users_21_equals_no_type"),
        ("gpu:a100:4294967294", {}),
        ("gpu:a100:0(IDX:N/A)", {}),
        ("gpumem:40G,gpuutil:80,shard:a100:4,mps:100", {}),
        ("gpu:1g.10gb:3", {"1g.10gb": 3.0}),
    ],
)
def test_kind_6_1_gres(text: str, gpus: dict[str, float]) -> None:
    assert parse_gres(text) == gpus


@pytest.mark.parametrize(
    ("text", "tasks", "throttle"),
    [
        ("7_[0-15:4]", (0, 4, 8, 12), None),
        ("7_[1-15:4,20%2]", (1, 5, 9, 13, 20), 2),
        ("7_[1-3]%4", (1, 2, 3), 4),
        ("7_[1-3,...]", (1, 2, 3), None),
        ("7_[1-3,5...%10]", (1, 2, 3, 5), 10),
        ("7_[007]", (7,), None),
    ],
)
def test_kind_6_2_tasks_of_arrays(text: str, tasks: tuple[int, ...], throttle: int | None) -> None:
    found = parse_job_id(text)

    assert (found.job, found.tasks, found.throttle) == (7, tasks, throttle)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("7+12.batch", (7, None, 12, "batch")),
        ("7_3.extern", (7, 3, None, "extern")),
        ("7.interactive", (7, None, None, "interactive")),
        ("7.0+1", (7, None, None, "0+1")),
        (" 7_0 ", (7, 0, None, None)),
        ("7_4294967293", (7, 4_294_967_293, None, None)),
    ],
)
def test_kind_6_2_ids_of_jobs_and_steps(text: str, parts: tuple[int, int | None, int | None, str | None]) -> None:
    found = parse_job_id(text)

    assert (found.job, found.task, found.het, found.step) == parts


@pytest.mark.parametrize(
    ("text", "step"),
    [
        pytest.param("s5K1KKYAYG5D0A.batch", "batch", id="case_users_25_step_of_a_sluid"),
        ("s5K1KKYAYG5D0A", None),
        ("7_[0-4000000%1000]", None),
        ("7_[1-3].0", "0"),
        ("7+1.extern", "extern"),
    ],
)
def test_kind_6_2_a_step_is_told_from_its_job(text: str, step: str | None) -> None:
    assert step_of(text) == step


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("4103947_[9-11,13,16-20]", 9, id="case_users_29"),
        pytest.param("4103947_[9-11,13,16-20%4]", 9, id="case_users_29_throttle"),
        ("7_[0-4000000]", 4_000_001),
        ("7_[0-1000000:2%10]", 500_001),
        ("7_3", 1),
        ("7", 1),
    ],
)
def test_kind_6_2_tasks_are_counted(text: str, count: int) -> None:
    assert count_tasks(text) == count


@pytest.mark.parametrize(
    "text",
    ["7_[1-3:0]", "7_[3:2]", "7_[1-3:]", "7_[5-1]", "7_[0-1000000000]", "7_[]", "7_[...]", "7_", "7.", "7+",
     "s5K1KKYAYG5D0", "s5K1KKYAYG5DOO", "7 8", "7;8", "٧", "7_*", "batch", "-7", "7%2"],
)  # fmt: skip
def test_kind_6_2_what_is_no_id_is_an_error(text: str) -> None:
    with pytest.raises(SourceError):
        parse_job_id(text)


@pytest.mark.parametrize(
    ("text", "name", "is_known"),
    [
        ("RUNNING+COMPLETING", "running", True),
        ("RUNNING,COMPLETING", "running", True),
        ("COMPLETED,", "completed", True),
        ("PENDING (Resources)", "pending", True),
        ("NODE_FAIL+COMPLETING", "node_fail", True),
        ("CONFIGURI+", "configuring", True),
        ("RESV_DEL_HOLD", "resv_del_hold", True),
        ("REQUEUE_H+", "requeue_hold", True),
        ("RD", "resv_del_hold", True),
        ("ST", "stopped", True),
        ("CANCELLED by (unknown)", "cancelled", True),
        ("CANCELLED by", "cancelled", True),
        ("CANCELLED  by  1000", "cancelled", True),
        ("RUNNING;COMPLETING", "running", True),
        ("RUNNING COMPLETING", "running", True),
        ("NODE FAIL", "node_fail", True),
        ("COMPLETED\0", "completed", True),
        ("\x1b[2JFAILED", "[2jfailed", False),
        ("TIMEOUT\r\n", "timeout", True),
        ("(null)", "unknown", False),
        ("None", "unknown", False),
        ("N/A", "unknown", False),
        ("COMP+", "comp", False),  # completed or completing
        ("CO+", "co", False),
        ("NO_SUCH+", "no_such", False),
        ("HIBERNATED", "hibernated", False),
        ("", "unknown", False),
    ],
)
def test_kind_6_2_states(text: str, name: str, is_known: bool) -> None:
    found = parse_state(text)

    assert (found.name, found.is_known) == (name, is_known)


@pytest.mark.parametrize(
    ("text", "count", "some"),
    [
        ("a[1-2]b[3-4]c[5-6]", 8, "a2b3c6"),
        ("n[08-11]", 4, "n10"),
        ("n[9-11]", 3, "n10"),
        ("n[001,1,01]", 3, "n001"),
        ("tux-[0-1]-ib[00-01]", 4, "tux-1-ib00"),
        ("n1, n2", 2, "n2"),
        ("gpu-a100-01,gpu-a100-02", 2, "gpu-a100-02"),
        ("n[1].cluster.example", 1, "n1.cluster.example"),
        ("[1-2]", 2, "2"),
        ("x[0-99999]", 100_000, "x77777"),
        ("N/A", 0, None),
        ("UNKNOWN", 0, None),
    ],
)
def test_kind_6_3_node_lists(text: str, count: int, some: str | None) -> None:
    names = expand_nodes(text)

    assert len(names) == count
    assert some is None or some in names


@pytest.mark.parametrize(
    "text",
    ["n[1-2", "n1-2]", "n[[1]]", "n[1--2]", "n[1-2-3]", "n[,1]", "n[1,]", "n,", ",n", "n,,m", "n[ 1]", "n[0x1-0x3]",
     "n[1-2:2]", "n m", "x[0-100000]", "a[0-999]b[0-999]", "n[1000000000000000000000]", "n[-1]", "n[١-٣]", "n[*]"],
)  # fmt: skip
def test_kind_6_3_what_is_no_node_list_is_an_error(text: str) -> None:
    with pytest.raises(SourceError):
        expand_nodes(text)


def units(**changes: str) -> tuple[list[ManagerUnit], Faults]:
    """Return what one job of sacct's answer becomes, its fields changed."""
    fields = (*NEEDED, *WANTED, "JobIDRaw")
    values = dict.fromkeys(fields, "") | {
        "JobIDRaw": "42",
        "JobID": "42",
        "Start": "1700000000",
        "End": "1700000060",
        "State": "COMPLETED",
        "User": "alice",
        "UID": "1000",
        "Account": "proj1",
        "NodeList": "n1",
        "AllocTRES": "cpu=2,mem=1G,node=1",
        "JobName": "x",
        **changes,
    }
    line = DELIMITER.join(values[field] for field in fields) + "\n"
    faults, reader = Faults(), JobReader("c1")
    found = list(RecordReader(reader).read(line, Table(fields, DELIMITER), faults))
    return [unit for unit in found if unit is not None], faults


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "a^|^b",
        "a,b;c\tb",
        "two\nlines",
        "three\r\nmore\r\nlines",
        "\n",
        'it\'s "quoted" `so`',
        "$(reboot) `id`",
        "  blanks  ",
        "=1+1",
        "аλφα 日本 🚀",
        "\u202egnp.exe",
        "%n%s%x",
        "\x1b[2J",
        "null\0byte",
        "\ufffd\ufffd",
        "x" * 5000,
        "None",
        "42",
        "\x1f",
        "a\\nb",
        "--",
        "JobIDRaw",
    ],
)
def test_kind_6_4_a_job_keeps_its_name_and_its_record(name: str) -> None:
    (unit,), faults = units(JobName=name, Comment=name)

    assert (unit.unit, unit.name, unit.user, faults.count) == ("42", name, "alice", 0)


@pytest.mark.parametrize(
    ("changes", "user", "project"),
    [
        ({"User": "", "UID": "1234"}, "unknown (uid 1234)", "proj1"),
        ({"User": "1234", "UID": "1234"}, "unknown (uid 1234)", "proj1"),
        ({"User": "", "UID": ""}, None, "proj1"),
        ({"User": "(null)", "UID": "nan"}, None, "proj1"),
        ({"User": "DOMAIN\\alice"}, "DOMAIN\\alice", "proj1"),
        ({"User": "alice@example.org"}, "alice@example.org", "proj1"),
        ({"User": "aàb", "Account": "domänen-benutzer"}, "aàb", "domänen-benutzer"),
        ({"Account": ""}, "alice", None),
        ({"Account": "(null)"}, "alice", None),
        ({"Account": "a b"}, "alice", "a b"),
    ],
)
def test_kind_6_4_people_and_accounts(changes: dict[str, str], user: str | None, project: str | None) -> None:
    (unit,), faults = units(**changes)

    assert (unit.user, unit.project, faults.count) == (user, project, 0)


def test_case_users_29_an_array_of_any_size_that_waits_is_no_fault() -> None:
    found, faults = units(JobID="42_[0-4000000%1000]", Start="Unknown", End="Unknown", State="PENDING", NodeList="")

    assert (found, faults.count) == ([], 0)


@pytest.mark.parametrize(
    "description", ["a|b", "the group's |own|", "\u202e x", "", "a\u2028b", "a\x85b\x0bc\x1ed", "a\rb"]
)
def test_kind_6_4_an_accounts_description_holds_anything(description: str) -> None:
    found = read_accounts("proj1||root\nproj1|alice|\n", f"proj1|{description}\n")

    assert [(each.name, each.description) for each in found.accounts] == [("proj1", description or None)]
    assert [(each.user, each.project) for each in found.memberships] == [("alice", "proj1")]


@pytest.mark.parametrize(
    "reason",
    [
        "State=IDLE CPUAlloc=7 [root@2026-01-01T00:00:00]",
        "disk = full",
        "a\tb",
        "NodeName=n2",
        "a\x0bNodeName=n2",
        "a\u2028NodeName=n2",
    ],
)
def test_kind_6_4_a_reason_holds_anything(reason: str) -> None:
    (node,) = read_nodes(f"NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUTot=8 State=DOWN*+DRAIN Reason={reason}\n")

    assert (node.name, node.state, node.is_schedulable) == ("n1", "down+not_responding+drain", False)
    assert node.allocated is not None
    assert node.allocated.cpus == 0


@pytest.mark.parametrize(
    ("words", "gpus", "used"),
    [
        (
            "CfgTRES=cpu=8,gres/gpu=4 AllocTRES=cpu=2,gres/gpu=1 Gres=gpu:4 GresUsed=gpu:1(IDX:0)",
            {"gpu": 4},
            {"gpu": 1},
        ),
        ("CfgTRES=cpu=8,gres/gpu=4 AllocTRES= Gres=gpu:4 GresUsed=gpu:0(IDX:N/A)", {"gpu": 4}, {}),
        # AccountingStorageTRES leaves out GPUs
        ("CfgTRES=cpu=8 AllocTRES=cpu=2 Gres=gpu:h100:8 GresUsed=gpu:h100:5(IDX:0-4)", {"h100": 8}, {"h100": 5}),
        ("CfgTRES=cpu=8 AllocTRES=cpu=2 Gres=gpu:h100:8(S:0-1) GresUsed=gpu:h100:0(IDX:N/A)", {"h100": 8}, {}),
    ],
)
def test_case_users_21_gpus_of_a_node_are_known_without_their_tres(
    words: str, gpus: dict[str, float], used: dict[str, float]
) -> None:
    (node,) = read_nodes(f"NodeName=n1 State=MIXED {words}\n")

    assert node.allocated is not None
    assert (node.gpus, node.allocated.gpus) == (gpus, used)


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("MIXED+PLANNED", True),
        ("ALLOCATED+RESERVED", True),
        ("IDLE+DRAIN+DYNAMIC_NORM", False),
        ("MIXED+MAINTENANCE", False),
        ("DOWN+INVALID_REG", False),
        ("IDLE+FAIL", False),
        ("UNKNOWN*", False),
        ("FUTURE", False),
        ("IDLE~", True),
        ("ALLOC@", False),
    ],
)
def test_kind_6_4_states_of_nodes(text: str, is_open: bool) -> None:
    assert parse_node_state(text)[1] is is_open


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        pytest.param({"Elapsed": "1-02:03:04"}, 93784.0, id="case_users_13_days"),
        pytest.param({"Elapsed": "00:26:34", "ElapsedRaw": "1594"}, 1594.0, id="case_users_12_raw"),
        pytest.param({"Elapsed": "00:00:00", "ElapsedRaw": "0"}, 0.0, id="case_users_9_zero_is_known"),
        pytest.param({"Elapsed": "INVALID", "ElapsedRaw": ""}, None, id="case_users_13_invalid"),
        pytest.param({"Elapsed": "-00:00:16", "ElapsedRaw": "-16"}, None, id="case_users_13_negative"),
        pytest.param({}, None, id="not_said"),
    ],
)
def test_kind_6_1_how_long_it_ran(changes: dict[str, str], seconds: float | None) -> None:
    (unit,), faults = units(**changes)

    assert (unit.elapsed_seconds, faults.count) == (seconds, 0)


NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2023-01-01T12:00:00", id="case_ceems_197_no_offset"),
        pytest.param("2023-01-01T13:00:00+0100", id="case_ceems_253_offset"),
        pytest.param("2023-01-01T13:00:00+01:00", id="case_ceems_432_colon"),
        pytest.param("2023-01-01T12:00:00Z", id="case_ceems_433_zulu"),
        pytest.param("2023-01-01T13:00:00+01", id="hours_alone"),
        pytest.param("2023-01-01T17:30:00+0530", id="half_hours"),
        pytest.param("2023-01-01T08:30:00-0330", id="west"),
        pytest.param("2023-01-02T02:00:00+1400", id="tomorrow_there"),
        pytest.param("2023-01-01 12:00:00", id="a_blank"),
        pytest.param("2023-01-01T13:00:00 +0100", id="a_blank_before_the_offset"),
        pytest.param("2023-01-01T12:00:00.250", id="fractions"),
        pytest.param("1672574400", id="seconds"),
        pytest.param("1672574400.75", id="fractions_of_seconds"),
    ],
)
def test_kind_6_5_one_instant_in_many_words(text: str) -> None:
    assert parse_time(text) == NOON


@pytest.mark.parametrize(
    "text",
    [
        "18446744073709551614",
        "4294967295",
        "0",
        "1970-01-01T00:00:00",
        "1970-01-01T01:00:00+0100",
        "1969-12-31T19:00:00",
    ],
)
def test_kind_6_5_what_stands_for_never_is_unknown(text: str) -> None:
    assert parse_time(text) is None


def test_kind_6_5_a_leap_second_is_the_next_minute() -> None:
    assert parse_time("2016-12-31T23:59:60") == datetime(2017, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "01/01-12:00:00",
        "12:00:00",
        "Jan 01 12:00",
        "2023-01-01",
        "2023-13-01T00:00:00",
        "2023-01-01T25:00:00",
        "2023-01-01T12:00",
        "2023-01-01T12:00:61",
        "2023-01-01T12:00:00 CET",
        "2023-01-01T12:00:00+9900",
        "now",
        "-1",
        "2023-02-29T00:00:00",
    ],
)
def test_kind_6_5_what_is_no_instant_is_an_error(text: str) -> None:
    with pytest.raises(SourceError):
        parse_time(text)


@pytest.mark.parametrize(
    ("changes", "end", "damaged"),
    [
        pytest.param({"State": "RUNNING", "End": "Unknown"}, None, 0, id="case_users_56_running"),
        pytest.param({"State": "COMPLETED", "End": "Unknown", "ElapsedRaw": "60"}, 1700000060, 1, id="case_users_56"),
        pytest.param({"State": "NODE_FAIL", "End": "Unknown", "ElapsedRaw": "0"}, 1700000000, 1, id="no_time"),
        pytest.param({"State": "COMPLETED", "End": "Unknown"}, None, 1, id="case_users_56_no_length"),
        pytest.param({"State": "REQUEUED", "End": "Unknown"}, None, 0, id="what_is_to_run_again"),
        pytest.param({"State": "FOO", "End": "Unknown"}, None, 0, id="a_strange_state"),
    ],
)
def test_kind_6_5_what_is_over_has_an_end(changes: dict[str, str], end: int | None, damaged: int) -> None:
    (unit,), faults = units(**changes)

    assert unit.ended_at == (None if end is None else datetime.fromtimestamp(end, UTC))
    assert faults.count == damaged


@pytest.mark.parametrize(
    ("changes", "damaged"),
    [
        pytest.param({"State": "RUNNING", "Start": "Unknown", "End": "Unknown"}, 1, id="case_users_56_no_start"),
        pytest.param({"State": "COMPLETED", "Start": "Unknown", "End": "Unknown"}, 1, id="case_users_56_neither"),
        pytest.param({"State": "TIMEOUT", "Start": "None"}, 1, id="no_start"),
        pytest.param({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, 0, id="waits"),
        pytest.param({"State": "CANCELLED by 5", "Start": "Unknown", "End": "1700000000"}, 0, id="never_began"),
        pytest.param({"State": "DEADLINE", "Start": "Unknown", "End": "1700000000"}, 0, id="too_late"),
    ],
)
def test_kind_6_5_what_has_begun_has_a_start(changes: dict[str, str], damaged: int) -> None:
    found, faults = units(**changes)

    assert (found, faults.count) == ([], damaged)


@pytest.mark.parametrize(
    ("start", "end"), [("1700000060", "1700000000"), ("1700000000", "Unknown"), ("1700000000", "0")]
)
def test_kind_6_5_a_job_never_lives_less_than_no_time(start: str, end: str) -> None:
    (unit,), _ = units(Start=start, End=end)

    assert unit.ended_at is None or unit.ended_at >= unit.started_at
