"""`kwhere doctor` over the moments of each host tree: what its README works out, and what is wrong is named so."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doctor_place import found, made, place_of, with_sources
from tests.fixtures.hosts.build import HOSTS
from tests.sampling_world import HandMeter

from kwhere.apps.doctor import asking
from kwhere.apps.doctor import place_of as place_of_settings
from kwhere.apps.settings import Settings
from kwhere.core.terms import DomainKind
from kwhere.kernel.identity import CpuModel
from kwhere.local.doctor import Check, CheckState, listed
from kwhere.local.doctor_absent import has_rapl
from kwhere.local.doctor_answers import ask_copy
from kwhere.local.doctor_energy import CHECKS
from kwhere.local.doctor_hints import hints
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.meters.registry import SourceStatus

CPU0 = Domain(DomainKind.CPU, "0")
ABSENT = with_sources(SourceStatus("powercap", up=False, reason="absent", detail="none"))
WATTS = [
    ("xeon-2s-dram", "powercap", "cpu of 2 sockets, dram of 2 sockets: cpu 300 W, dram 35.0 W"),  # a counter wraps
    ("cascade-lake-ap", "powercap", "cpu of 2 sockets, dram of 2 sockets: cpu 395 W, dram 39.5 W"),
    ("epyc-2s", "powercap", "cpu of 2 sockets: cpu 160 W"),
    ("epyc-zen2-mirror", "powercap", "cpu of 1 socket: cpu 68.0 W"),  # mirrors counted once
    ("sapphire-rapids-psys", "powercap", "cpu of 2 sockets, dram of 2 sockets: cpu 370 W, dram 30.0 W"),
    ("laptop-psys-mmio", "powercap", "cpu of 1 socket, dram of 1 socket: cpu 3.78 W, dram 900 mW"),
    ("laptop-psys-mmio", "psys", "the whole node: 9.61 W"),
    ("laptop-battery", "battery", "the whole node: 15.0 W"),
    ("acpi-server", "hwmon_power", "the whole node: 190 W"),
    ("grace-hopper", "hwmon_power", "cpu of 1 socket, the whole node: 620 W, cpu 190 W"),
    ("grace-superchip", "hwmon_power", "cpu of 2 sockets, the whole node: 490 W, cpu 380 W"),
    (
        "cray-ex-4accel",
        "cray",
        "cpu of 1 socket, dram of 1 socket, gpu of 4 devices, the whole node: 1.30 kW, cpu 210 W, dram 50.0 W,"
        " gpu 820 W",
    ),
]
WRONG = [
    ("sapphire-rapids-psys", "psys", CheckState.FAILED, "shows less than the packages inside it", "30 W"),
    ("vm-garbage-counters", "powercap", CheckState.FAILED, "shows what no machine can draw", "meters.off"),
    ("xeon-perf-only", "perf", CheckState.MISSING, "here, not opened: this is a copied tree", "CAP_PERFMON"),
    ("xeon-perf-only", "powercap", CheckState.MISSING, "its counters are not in this copy", "only root can copy"),
    ("container-no-sys", "powercap", CheckState.MISSING, "not here", "no /sys here: mount the host's"),
    ("cray-ex-4accel", "powercap", CheckState.MISSING, "not here", "Another source measures the CPUs."),
    ("laptop-battery", "powercap", CheckState.MISSING, "not here", ""),  # Bulldozer's child: no counters in it
]
SAID = [
    ("sapphire-rapids-psys", CheckState.OK, "cpu and dram counted by powercap, the whole node not measured"),
    ("cray-ex-4accel", CheckState.OK, "cpu, dram, gpu and the whole node counted by cray"),
    ("vm-garbage-counters", CheckState.FAILED, "cpu: powercap shows what no machine can draw"),
]


@cache
def _checks(host: str) -> dict[str, Check]:
    settings = Settings.model_validate(
        {"path": {f"{area}fs": HOSTS / host / area for area in ("proc", "sys", "cgroup")}}
    )
    return found(CHECKS, asking(place_of_settings(settings), settings))


@pytest.mark.parametrize(("host", "source", "says"), WATTS, ids=[f"{row[0]}-{row[1]}" for row in WATTS])
def test_two_moments_of_a_copy_give_watts(host: str, source: str, says: str) -> None:
    check = _checks(host)[f"meter_{source}"]

    assert (check.state, check.found) == (CheckState.OK, says)


@pytest.mark.parametrize(("host", "source", "state", "says", "why"), WRONG, ids=[f"{r[0]}-{r[1]}" for r in WRONG])
def test_what_is_wrong_there_is_named(host: str, source: str, state: CheckState, says: str, why: str) -> None:
    check = _checks(host)[f"meter_{source}"]

    assert (check.state, check.found) == (state, says)
    assert why in check.why
    assert check.remedies == ()


@pytest.mark.parametrize(("host", "state", "says"), SAID, ids=[row[0] for row in SAID])
def test_the_line_of_energy_goes_by_what_the_meters_say(host: str, state: CheckState, says: str) -> None:
    check = _checks(host)["energy"]

    assert (check.state, check.found) == (state, says)


def test_no_copy_asks_for_a_driver_of_another_machine() -> None:
    hosts = sorted(path.name for path in HOSTS.iterdir() if (path / "proc").is_dir())

    assert {host: hints(_checks(host).values()) for host in hosts} == {host: [] for host in hosts}


def test_a_container_without_sys_is_not_called_metal() -> None:
    checks = _checks("container-no-sys")

    assert checks["machine"].found.endswith("; a machine that shows no /sys")
    assert "there is no /sys here" in checks["energy"].why


@pytest.mark.parametrize(
    ("vendor", "family", "model", "has"),
    [
        ("AuthenticAMD", 0x15, 112, False),  # Bulldozer and its children
        ("AuthenticAMD", 0x17, 49, True),
        ("AuthenticAMD", 0x1A, 2, True),
        ("AuthenticAMD", None, None, True),
        ("HygonGenuine", 0x18, 0, True),
        ("GenuineIntel", 6, 0x8F, True),
        ("GenuineIntel", 6, 0x2A, True),
        ("GenuineIntel", 6, 0x2C, False),  # Westmere-EP
        ("GenuineIntel", 6, 0x1A, False),  # Nehalem
        ("GenuineIntel", 6, None, True),
        ("GenuineIntel", 15, 4, False),  # NetBurst
        ("GenuineIntel", 18, 1, True),
        ("GenuineIntel", None, None, True),
        ("0x41", None, None, False),
        (None, None, None, False),
    ],
)
def test_which_processors_have_counters(vendor: str | None, family: int | None, model: int | None, has: bool) -> None:
    assert has_rapl(CpuModel(vendor, family, model)) is has


def test_a_processor_without_counters_is_given_no_driver(tmp_path: Path) -> None:
    fs = made(tmp_path, {"proc/cpuinfo": "processor : 0\nvendor_id : AuthenticAMD\ncpu family : 21\nmodel : 112\n"})

    check = found(CHECKS, place_of(fs, meters=ABSENT))["meter_powercap"]

    assert (check.state, check.remedies) == (CheckState.MISSING, ())


def test_a_total_below_its_processors_is_not_believed() -> None:
    powercap, psys = HandMeter(counters={CPU0: 0}, range_uj=None), HandMeter("psys", counters={PLATFORM: 0})
    psys.needs_proof = True

    def moments(total_uj: int) -> Iterator[int]:
        yield 0
        powercap.add(CPU0, 100_000_000)
        psys.add(PLATFORM, total_uj)
        yield 1_000_000_000

    below = ask_copy([powercap, psys], moments(99_000_000))["psys"]
    above = ask_copy([powercap, psys], moments(130_000_000))["psys"]

    assert below.failure is not None
    assert below.failure.reason == "below_components"
    assert above.watts == {DomainKind.PLATFORM: 130.0}


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=5))
def test_a_list_in_a_sentence_has_one_and(words: list[str]) -> None:
    text = listed(words)

    assert text.count(" and ") == (len(words) > 1)
    assert text.replace(" and ", ", ").split(", ") == (words or [""])
