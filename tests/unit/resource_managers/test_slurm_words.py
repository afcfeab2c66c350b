"""SLURM's words, by the cases of the field and by noise."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.resource_managers.slurm_facts import without_suffix
from kwhere.resource_managers.slurm_words import (
    JobId,
    Memory,
    Per,
    parse_duration,
    parse_gres,
    parse_job_id,
    parse_memory,
    parse_state,
    parse_time,
    parse_tres,
    time_of,
)

K = 1024


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        pytest.param("1947276K", Memory(1947276 * K), id="case_users_1"),
        pytest.param("16000M", Memory(16000 * K**2), id="case_users_1_asked"),
        pytest.param("0c", Memory(0, Per.CPU), id="case_users_4"),
        pytest.param("0n", Memory(0, Per.NODE), id="case_users_4_node"),
        pytest.param("0", Memory(0), id="case_users_6"),
        pytest.param("1P", Memory(K**5), id="case_users_8_peta"),
        pytest.param("1E", Memory(K**6), id="case_users_8_exa"),
        pytest.param("1Z", Memory(K**7), id="case_users_8_zetta"),
        pytest.param("4Gc", Memory(4 * K**3, Per.CPU), id="per_cpu"),
        pytest.param("48000Mn", Memory(48000 * K**2, Per.NODE), id="per_node"),
        pytest.param("1.50G", Memory(3 * K**3 // 2), id="fraction"),
        pytest.param("2?", Memory(2), id="question_mark"),
        pytest.param("12g", Memory(12 * K**3), id="lower"),
        *(pytest.param(word, None, id=f"none_{word}") for word in ("", " ", "Unknown", "None", "N/A", "(null)")),
    ],
)
def test_memory(text: str, memory: Memory | None) -> None:
    assert parse_memory(text) == memory


@pytest.mark.parametrize("text", ["1X", "1Q", "-1", "1e9", "G", "1GiB", "1,5G", "1G2", "١G", "1Gcn", "nan", "inf"])
def test_case_users_8_an_unknown_unit_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="memory"):
        parse_memory(text)


def test_memory_over_cpus_and_nodes() -> None:
    assert Memory(4 * K**3, Per.CPU).total_bytes(8, 2) == 32 * K**3
    assert Memory(4 * K**3, Per.NODE).total_bytes(8, 2) == 8 * K**3
    assert Memory(4 * K**3).total_bytes(8, 2) == 4 * K**3
    assert Memory(4 * K**3, Per.CPU).total_bytes(None, 2) is None
    assert Memory(0, Per.CPU).total_bytes(8, 2) is None
    assert parse_memory("100", "M") == Memory(100 * K**2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1-02:03:04", 93784.0, id="case_users_13_days"),
        pytest.param("02:03:04", 7384.0, id="case_users_13_hours"),
        pytest.param("03:04", 184.0, id="case_users_13_minutes"),
        pytest.param("03:04.567", 184.567, id="case_users_13_fraction"),
        pytest.param("00:00.004", 0.004, id="case_users_13_milliseconds"),
        pytest.param("00:00:00", 0.0, id="case_users_9"),
        pytest.param("1-16:59:47", 147587.0, id="case_users_12"),
        pytest.param("1-02:03", 93780.0, id="days_hours_minutes"),
        *(
            pytest.param(word, None, id=f"case_users_13_{word or 'empty'}")
            for word in ("Unknown", "None", "INVALID", "", "UNLIMITED", "Partition_Limit")
        ),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


UTC_NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("1672574400", UTC_NOON, id="seconds"),
        pytest.param("2023-01-01T12:00:00", UTC_NOON, id="case_ceems_253_no_offset"),
        pytest.param("2023-01-01T13:00:00+0100", UTC_NOON, id="case_ceems_197_offset"),
        pytest.param("2023-01-01T13:00:00+01:00", UTC_NOON, id="case_ceems_432_colon"),
        pytest.param("2023-01-01T06:30:00-0530", UTC_NOON, id="case_ceems_433_half_hour"),
        pytest.param("2023-01-01T12:00:00Z", UTC_NOON, id="zulu"),
        pytest.param("2023-01-01 12:00:00.500", UTC_NOON, id="fraction"),
        # the hour that comes twice in Zurich, apart by its offset
        pytest.param("2026-10-25T02:30:00+0200", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), id="case_users_49_first"),
        pytest.param("2026-10-25T02:30:00+0100", datetime(2026, 10, 25, 1, 30, tzinfo=UTC), id="case_users_49_second"),
        *(pytest.param(word, None, id=f"none_{word}") for word in ("Unknown", "None", "", "0", "N/A", "INVALID")),
    ],
)
def test_times(text: str, moment: datetime | None) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("2023-02-30T00:00:00", "2023-01-01", "yesterday", "0000-00-00T00:00:00", "999999999999", "-5"),
        *("2023-01-01T25:00:00", "0001-01-01T00:00:00+1400", "2023-01-01T00:00:00+9999"),
    ],
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(SourceError, match="time"):
        parse_time(text)


def test_slurm_s_words_for_never() -> None:
    assert [time_of(seconds) for seconds in (0, 2**32 - 1, 2**32 - 2, 2**64 - 2)] == [None] * 4


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        pytest.param(
            "billing=16,cpu=16,gres/gpu:nvidia_geforce_rtx_2080_ti=1,mem=64G,node=1",
            {"nvidia_geforce_rtx_2080_ti": 1},
            id="case_users_14",
        ),
        pytest.param("gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1", {"a100": 2, "v100": 1}, id="case_users_16"),
        pytest.param("gres/gpu=4,gres/gpu:a100=2", {"a100": 2, "gpu": 2}, id="some_without_type"),
        pytest.param("", {}, id="case_users_17_empty"),
        pytest.param("gres/gpu:p100=1", {"p100": 1}, id="case_users_17_one"),
        pytest.param("gres/gpu:volta=2,mem=125G,node=1", {"volta": 2}, id="case_users_17_two"),
        pytest.param("gres/gpumem=40G,gres/gpuutil=80,gres/shard=4,gres/mps=50", {}, id="case_users_18_alike"),
        pytest.param("gres/gpu:1g.10gb=1", {"1g.10gb": 1}, id="case_users_18_mig"),
        pytest.param("gres/gpu=2", {"gpu": 2}, id="no_type"),
        pytest.param("gres/gpu=4(x2)", {"gpu": 8}, id="times"),
        pytest.param("gres/gpu=x,gres/gpu:a=", {}, id="nonsense"),
        pytest.param("GRES/GPU:H100=1", {"H100": 1}, id="case_of_types"),
    ],
)
def test_gpus_of_tres(text: str, gpus: dict[str, float]) -> None:
    assert parse_tres(text).gpus == gpus


def test_tres() -> None:
    found = parse_tres("billing=16,cpu=16,energy=12K,gres/gpu=1,mem=64G,node=2")

    assert (found.cpus, found.memory_bytes, found.nodes) == (16, 64 * K**3, 2)
    assert parse_tres("mem=100").memory_bytes == 100 * K**2
    assert parse_tres("cpu=many,mem=?,node") == parse_tres("")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:a100:2(S:0-1),gpu:v100:1,mps:200", {"a100": 2, "v100": 1}),
        ("gpu:a100:2(IDX:0,2)", {"a100": 2}),
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:a100", {"a100": 1}),
        ("gpu:0", {}),
        ("(null)", {}),
        ("shard:8,gpumem:3", {}),
        ("gpu:1g.10gb:7(S:0)", {"1g.10gb": 7}),
    ],
)
def test_gpus_of_gres(text: str, gpus: dict[str, float]) -> None:
    assert parse_gres(text) == gpus


@pytest.mark.parametrize(
    ("text", "name", "is_known", "by"),
    [
        ("CANCELLED by 1000", "cancelled", True, "1000"),
        ("CANCELLED+", "cancelled", True, None),
        ("NODE_FAIL", "node_fail", True, None),
        ("OUT_OF_MEMORY", "out_of_memory", True, None),
        ("OUT_OF_ME+", "out_of_memory", True, None),
        ("DEADLINE", "deadline", True, None),
        ("BOOT_FAIL", "boot_fail", True, None),
        ("PREEMPTED", "preempted", True, None),
        ("REVOKED", "revoked", True, None),
        ("RESIZING", "resizing", True, None),
        ("SUSPENDED", "suspended", True, None),
        ("FOO", "foo", False, None),
        ("", "unknown", False, None),
        ("+", "unknown", False, None),
        ("CD", "completed", True, None),
        ("REQUEUED", "requeued", True, None),
    ],
)
def test_case_users_34_states(text: str, name: str, is_known: bool, by: str | None) -> None:
    state = parse_state(text)

    assert (state.name, state.is_known, state.by) == (name, is_known, by)


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        pytest.param("123_4", JobId(123, task=4), id="case_users_25_task"),
        pytest.param("123+0", JobId(123, het=0), id="case_users_25_het"),
        pytest.param("123.batch", JobId(123, step="batch"), id="case_users_25_step"),
        pytest.param("123_4.0", JobId(123, task=4, step="0"), id="case_users_25_task_step"),
        pytest.param("123_4.extern", JobId(123, task=4, step="extern"), id="case_users_25_extern"),
        pytest.param("s0K3M7QW2X9ZAB", JobId(sluid="s0K3M7QW2X9ZAB"), id="case_users_25_sluid"),
        pytest.param("123+1", JobId(123, het=1), id="case_users_26"),
        pytest.param("123+1.0", JobId(123, het=1, step="0"), id="case_users_26_step"),
        pytest.param(
            "4103947_[9-11,13,16-20]", JobId(4103947, tasks=(9, 10, 11, 13, 16, 17, 18, 19, 20)), id="case_users_29"
        ),
        pytest.param("4103947_[9-11%4]", JobId(4103947, tasks=(9, 10, 11), throttle=4), id="case_users_29_throttle"),
        pytest.param("42", JobId(42), id="plain"),
    ],
)
def test_job_ids(text: str, job_id: JobId) -> None:
    assert parse_job_id(text) == job_id


@pytest.mark.parametrize("text", ["", "abc", "123_", "123_[", "123_[]", "-1", "1 2", "123..0", "s", "123_[5-1]"])
def test_what_is_no_job_id(text: str) -> None:
    with pytest.raises(SourceError):
        parse_job_id(text)


@pytest.mark.parametrize(
    ("account", "project"),
    [("def-bob_gpu", "def-bob"), ("def-upc_cpu", "def-upc"), ("_gpu", "_gpu"), ("x_gpu_gpu", "x_gpu"), ("gpu", "gpu")],
)
def test_case_users_47_a_suffix_goes_once_and_whole(account: str, project: str) -> None:
    assert without_suffix(account, ("_gpu", "_cpu")) == project


@given(st.text() | st.from_regex(r"[0-9KMGc.:_\[\]+%,=/gpu-]{0,30}", fullmatch=True))
def test_noise_is_a_value_or_an_error(text: str) -> None:
    for parse in (parse_memory, parse_duration, parse_time, parse_job_id):
        with suppress(SourceError):
            parse(text)
    assert all(count > 0 for count in parse_tres(text).gpus.values())
    assert all(count > 0 for count in parse_gres(text).values())
    assert parse_state(text).name
