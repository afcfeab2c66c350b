"""Cray's counters as text: value, unit, device time; sets that belong together."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.meters.pm_tree import write_counters
from tests.unit.meters.powercap_tree import EACCES, FaultyFS

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.kernel.hostfs import KeptFile
from kwhere.kernel.pm_counters import (
    PmCounter,
    PmFile,
    PmReader,
    find_energy_files,
    parse_pm_counter,
    read_power_cap_uw,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("98765 J 1690000000123456 us\n", PmCounter(98_765_000_000, "J", 1_690_000_000_123_456)),
        ("123 W 1690000000 us", PmCounter(123_000_000, "W", 1_690_000_000)),
        ("123.5 W 1690000000 us", PmCounter(123_500_000, "W", 1_690_000_000)),
        ("0 J 5 us", PmCounter(0, "J", 5)),
        ("4711\n", PmCounter(4_711_000_000, "", None)),
        ("10 Hz", PmCounter(10_000_000, "Hz", None)),
    ],
)
def test_a_value_its_unit_and_its_time(text: str, found: PmCounter) -> None:
    assert parse_pm_counter(text, "here") == found


@pytest.mark.parametrize(
    "text",
    ["", "J", "-5 J 1 us", "12,5 J 1 us", "nan J 1 us", "1 J x us", "1 J 5 ms", "1 J 5 us more", "1. J", "1e3 J"],
)
def test_anything_else_is_an_error_that_says_where(text: str) -> None:
    with pytest.raises(SourceError, match="here: expected"):
        parse_pm_counter(text, "here")


@given(st.text() | st.from_regex(r"[0-9. JWus-]{0,30}", fullmatch=True))
def test_any_text_is_a_counter_or_an_error(text: str) -> None:
    try:
        found = parse_pm_counter(text, "here")
    except SourceError:
        return
    assert found.micro >= 0


def test_files_that_count_energy_are_found_by_name(tmp_path: Path) -> None:
    write_counters(tmp_path, {"energy": 9, "cpu_energy": 5, "cpu0_energy": 2, "memory_energy": 1, "accel3_energy": 4})

    assert find_energy_files(FaultyFS(tmp_path)) == [
        PmFile("accel3_energy", "accel", "3"),
        PmFile("cpu0_energy", "cpu", "0"),
        PmFile("cpu_energy", "cpu", ""),
        PmFile("energy", "", ""),
        PmFile("memory_energy", "memory", ""),
    ]


def test_no_counters_at_all(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_energy_files(FaultyFS(tmp_path))

    assert caught.value.reason == "absent"


def test_a_file_that_cannot_be_read_or_is_no_energy_is_left_out(tmp_path: Path) -> None:
    root = write_counters(tmp_path, {"energy": 9, "cpu_energy": 5, "memory_energy": 1})
    (root / "cpu_energy").write_text("garbage\n")
    (root / "memory_energy").write_text("5 W 1 us\n")
    fs = FaultyFS(tmp_path)
    fs.closed["accel0_energy"] = EACCES

    found = PmReader(fs, ("energy", "cpu_energy", "memory_energy", "accel0_energy")).read()

    assert {name: value.micro for name, value in found.energy.items()} == {"energy": 9_000_000}


class RestlessFS(FaultyFS):
    """A host whose device writes anew after each of the first reads of `energy`."""

    def __init__(self, sysfs: Path, changes: int) -> None:
        super().__init__(sysfs)
        self.changes = changes
        self.root = sysfs / "cray" / "pm_counters"

    def keep(self, area_path: str) -> KeptFile:
        return _RestlessFile(self, area_path)


class _RestlessFile(KeptFile):
    __slots__ = ("_restless",)

    def __init__(self, fs: RestlessFS, area_path: str) -> None:
        super().__init__(fs, area_path)
        self._restless = fs

    def read(self) -> bytes:
        data = super().read()
        if self.area_path.endswith("/energy") and self._restless.changes:
            self._restless.changes -= 1
            freshness = self._restless.root / "freshness"
            freshness.write_text(f"{int(freshness.read_text()) + 1}\n")
        return data


@pytest.mark.parametrize("changes", [0, 1, 2])
def test_a_set_is_read_again_until_nothing_changed_during_it(tmp_path: Path, changes: int) -> None:
    write_counters(tmp_path, {"energy": 9}, freshness=100)

    found = PmReader(RestlessFS(tmp_path, changes), ("energy",)).read()

    assert found.freshness == 100 + changes


def test_a_device_that_never_rests_has_nothing_to_say_now(tmp_path: Path) -> None:
    write_counters(tmp_path, {"energy": 9})

    with pytest.raises(NoData):
        PmReader(RestlessFS(tmp_path, 99), ("energy",)).read()


@pytest.mark.parametrize(("text", "cap_uw"), [("0 W 1 us", None), ("2500 W 1 us", 2_500_000_000), ("none", None)])
def test_a_power_cap_of_0_is_none(tmp_path: Path, text: str, cap_uw: int | None) -> None:
    (write_counters(tmp_path, {}) / "power_cap").write_text(text)

    assert read_power_cap_uw(FaultyFS(tmp_path)) == cap_uw
