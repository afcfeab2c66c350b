"""The state that is journalled with each slot: there and back, and nothing else."""

import json
from dataclasses import replace

import pytest

from kwhere.core.errors import SourceError
from kwhere.core.terms import DomainKind
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading
from kwhere.energy.baseline import BaselineState, QuietWindow
from kwhere.energy.platform import Modelled, PlatformState
from kwhere.energy.zone import DomainState, ZoneState
from kwhere.meters.meter import Domain
from kwhere.sampling.cpu_book import CpuMark
from kwhere.sampling.guest_book import GuestCounter
from kwhere.sampling.saved import SavedState

CPU, CPU0 = Domain(DomainKind.CPU), Domain(DomainKind.CPU, "0")
KEY = UnitKey("process", 'alice:a "b" \n', "alice@1")
FULL = SavedState(
    boot_id="b",
    utc_ns=1,
    monotonic_ns=2,
    boottime_ns=3,
    cpu_ticks={0: (1, 2, 3, 4, 5)},
    socket_carry_ns=(-5,),
    marks={KEY: CpuMark(CpuReading(7, 4, 3), 9, 4711, "/a"), UnitKey("x", "y", "z"): CpuMark(CpuReading(1), 2, None)},
    directories={"/jobs": 12},
    container_carries={"/jobs": -3},
    details={KEY: {"io_read_bytes": 5}},
    scans={"CgroupUnits": {"/a": 4711}},
    domains={
        ("powercap", CPU0): DomainState(5, {"intel-rapl:0": ZoneState(5, 123, None, 0)}),
        ("hypervisor", CPU): DomainState(5, {"cpu": ZoneState(5, 123, None, 0, 100, "epoch-1")}),
    },
    platform=("psys", PlatformState(-9, {"cpu[0]": 4}, {"cpu[0]": 5}, {"dram[0]": Modelled(1, 2)}, {}, spoiled=True)),
    baselines={("powercap", CPU0): BaselineState((QuietWindow(1, 2),), 3, 4)},
    guests={UnitKey("libvirt", "u", "u@1"): GuestCounter("epoch-2", (1, 2, 3, 4, 5, 6, 7, 8))},
    idle_gpus={(KEY, "GPU-0", ""): 7, (KEY, "GPU-0", "MIG-1"): 8},
)
SINCE = frozenset({"guests", "idle_gpus"})
"""Fields that the first release did not write: a state without them is taken up all the same."""


def test_everything_comes_back() -> None:
    assert SavedState.from_json(FULL.to_json()) == FULL


def test_an_empty_state_comes_back() -> None:
    empty = SavedState("b", 1, 2, 3)

    assert SavedState.from_json(empty.to_json()) == empty


def test_it_is_one_line() -> None:
    assert "\n" not in FULL.to_json()


def test_runs_are_known_by_inode() -> None:
    assert FULL.runs == {4711: "alice@1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"format":1}',
        '{"format":2}',
        "\x00",
        FULL.to_json()[:-9],
        FULL.to_json().replace('"cpu"', '"x"'),
    ],
)
def test_nonsense_is_a_clear_error(text: str) -> None:
    with pytest.raises(SourceError, match="saved state"):
        SavedState.from_json(text)


@pytest.mark.parametrize("field", json.loads(FULL.to_json()))
def test_a_missing_or_wrong_field_is_a_clear_error(field: str) -> None:
    record = json.loads(FULL.to_json())
    wrong = {**record, field: {"not": ["what", "was", "saved"]}}
    del record[field]

    if field not in SINCE:
        with pytest.raises(SourceError, match="saved state"):
            SavedState.from_json(json.dumps(record))
    if field != "boot_id":
        with pytest.raises(SourceError, match="saved state"):
            SavedState.from_json(json.dumps(wrong))


@pytest.mark.parametrize("field", sorted(SINCE))
def test_a_state_from_before_there_was_a_field_is_taken_up(field: str) -> None:
    record = json.loads(FULL.to_json())
    del record[field]

    assert (
        SavedState.from_json(json.dumps(record))
        == {
            "guests": replace(FULL, guests={}),
            "idle_gpus": replace(FULL, idle_gpus={}),
        }[field]
    )
