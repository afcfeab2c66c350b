"""The ledger's column `gpus`: written and read back, sums over slots, and whatever else might stand there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ledger.slots import gpu_uses

from kwhere.core.errors import WireError
from kwhere.ledger.decode_gpus import read_gpus
from kwhere.ledger.gpu_uses import SUM_NAMES, GpuUse, encode_gpus, merged

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["device", "instance", "held_ns", "busy_ns", "x"]) | st.text(max_size=3), inner
        )
    ),
    max_leaves=8,
)


@given(st.lists(gpu_uses, max_size=3, unique_by=lambda use: use.place))
def test_what_is_written_is_read(uses: list[GpuUse]) -> None:
    assert read_gpus(json.loads(json.dumps(encode_gpus(uses))), "here") == tuple(uses)


@given(VALUES | st.lists(VALUES, max_size=3))
def test_anything_else_is_a_use_or_an_error_with_its_place(value: object) -> None:
    try:
        found = read_gpus(value, "slot 1 entry 2")
    except WireError as error:
        found, place = (), str(error)
    else:
        place = "slot 1 entry 2 gpu"

    assert place.startswith("slot 1 entry 2 gpu")
    assert all(use.device for use in found)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "gpus: expected a list"),
        ([7], "gpu 0: expected an object"),
        ([{"held_ns": 1}], "gpu 0 device: expected a uuid"),
        ([{"device": "GPU-0", "held_ns": -1}], "held_ns: expected an integer from 0"),
        ([{"device": "GPU-0", "held_ns": True}], "held_ns: expected an integer from 0"),
        ([{"device": "GPU-0", "model": "a\0"}], "model: expected a string"),
        ([{"device": "GPU-0"}, {"device": "GPU-0"}], "expected each device or instance once"),
    ],
)
def test_nonsense_says_what_was_expected(value: object, message: str) -> None:
    with pytest.raises(WireError, match=message):
        read_gpus(value, "slot 1 entry 0")


def test_what_a_newer_agent_says_besides_is_passed_over() -> None:
    (use,) = read_gpus([{"device": "GPU-0", "held_ns": 3, "tensor_ns": 9}], "here")

    assert use == GpuUse("GPU-0", held_ns=3)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=5))
def test_sums_add_up_and_the_newest_says_since_when(amounts: list[int]) -> None:
    uses = [
        GpuUse("GPU-0", **dict.fromkeys(SUM_NAMES, n), memory_peak_bytes=n, idle_since_ns=n)  # type: ignore[arg-type]
        for n in amounts
    ]

    (use,) = merged(uses).values()

    assert {getattr(use, name) for name in SUM_NAMES} == {sum(amounts)}
    assert (use.memory_peak_bytes, use.idle_since_ns) == (max(amounts), amounts[-1])


def test_what_is_unknown_in_one_slot_is_known_from_the_other() -> None:
    known, unknown = GpuUse("GPU-0", busy_ns=5, memory_total_bytes=9), GpuUse("GPU-0", held_ns=1)

    assert known.then(unknown).busy_ns == unknown.then(known).busy_ns == 5
    assert known.then(unknown).memory_total_bytes == 9
