"""RAPL layouts of the field: which zone counts for what, each physical counter once."""

import random
from pathlib import Path

import pytest
from tests.unit.meters.powercap_tree import (
    EACCES,
    EINVAL,
    EIO,
    ENODATA,
    RANGE,
    RANGE_AMD,
    FaultyFS,
    context,
    write_zone,
)

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.zone import DomainTrack, ZoneReading
from kwhere.meters import powercap, psys
from kwhere.meters.meter import PLATFORM, Domain, Meter, Reading

SECOND = 1_000_000_000
WATT = 1_000_000


def cpu(socket: str) -> Domain:
    return Domain(DomainKind.CPU, socket)


def dram(socket: str) -> Domain:
    return Domain(DomainKind.DRAM, socket)


def zones(readings: list[Reading]) -> dict[str, str]:
    """Return domain by zone."""
    return {reading.zone: str(reading.domain) for reading in readings}


def energies(meter: Meter, root: Path, deltas: dict[str, int]) -> dict[str, int]:
    """Return microjoules by domain after every zone's counter rose by its delta within a second."""
    before = meter.read(0)
    for directory, delta in deltas.items():
        (file,) = root.glob(f"class/powercap/**/{directory}/energy_uj")
        file.write_text(f"{(int(file.read_text()) + delta) % (RANGE + 61)}\n")
    after = meter.read(SECOND)
    found: dict[str, int] = {}
    for domain in meter.domains:
        track = DomainTrack(p_max_uw=meter.p_max_uw(domain), hold_ns=SECOND)
        for now_ns, readings in ((0, before), (SECOND, after)):
            mine = [
                (r.zone, ZoneReading(r.time_ns, r.counter_uj, r.power_uw, r.range_uj, r.p_max_uw))
                for r in readings
                if r.domain == domain
            ]
            step = track.advance(mine, now_ns)
        if step.energy_uj is not None:
            found[str(domain)] = step.energy_uj
    return found


def test_the_laptop_with_everything_intel_shows_case_energy_r30(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 600)
    write_zone(tmp_path, "intel-rapl:0:1", "uncore", 100)
    write_zone(tmp_path, "intel-rapl:0:2", "dram", 300)
    write_zone(tmp_path, "intel-rapl:1", "psys", 5000)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1000)
    write_zone(tmp_path, "intel-rapl-mmio:0:0", "dram", 300)

    meter = powercap.build(context(tmp_path))
    platform = psys.build(context(tmp_path))

    assert zones(meter.read(0)) == {"intel-rapl:0": "cpu[0]", "intel-rapl:0:2": "dram[0]"}
    assert zones(platform.read(0)) == {"intel-rapl:1": "platform"}
    assert (meter.source, meter.method, meter.covers) == ("powercap", Method.COUNTER, frozenset())
    assert platform.domains == (PLATFORM,)
    assert platform.needs_proof
    assert {Component.CPU, Component.DRAM} <= platform.covers


def test_psys_and_children_are_never_added_up_case_energy_r4(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 1000)
    write_zone(tmp_path, "intel-rapl:0:1", "uncore", 1000)
    write_zone(tmp_path, "intel-rapl:1", "psys", 1000)
    deltas = {"intel-rapl:0": 3_780_000, "intel-rapl:0:0": 840_000, "intel-rapl:0:1": 210_000}

    assert energies(powercap.build(context(tmp_path)), tmp_path, deltas) == {"cpu[0]": 3_780_000}
    assert energies(psys.build(context(tmp_path)), tmp_path, {"intel-rapl:1": 9_610_000}) == {"platform": 9_610_000}


def test_psys_at_the_place_of_a_second_socket_is_not_one_case_energy_r5(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "psys", 0)

    assert powercap.build(context(tmp_path)).domains == (cpu("0"),)


@pytest.mark.parametrize("vendor", ["AuthenticAMD", "HygonGenuine", None])
@pytest.mark.parametrize("dies", [2, 4, 8])
def test_dies_that_mirror_one_counter_count_once(tmp_path: Path, vendor: str | None, dies: int) -> None:
    """case_energy_r6: 68 W are 68 W, however many names they have."""
    for die in range(dies):
        write_zone(tmp_path, f"intel-rapl:{die}", f"package-0-die-{die}", 5_000_000 + die, range_uj=RANGE_AMD)
    meter = powercap.build(context(tmp_path, vendor=vendor))

    found = energies(meter, tmp_path, {f"intel-rapl:{die}": 68_000_000 + die for die in range(dies)})

    assert found == {"cpu[0]": 68_000_000}


def test_mirrors_of_two_sockets_count_once_each_case_energy_r6(tmp_path: Path) -> None:
    for socket in range(2):
        for die in range(2):
            write_zone(tmp_path, f"intel-rapl:{2 * socket + die}", f"package-{socket}-die-{die}", 10**9 * socket)
    meter = powercap.build(context(tmp_path, vendor="AuthenticAMD", sockets=("0", "1")))

    found = energies(
        meter,
        tmp_path,
        {
            "intel-rapl:0": 68_000_000,
            "intel-rapl:1": 68_000_000,
            "intel-rapl:2": 31_000_000,
            "intel-rapl:3": 31_000_000,
        },
    )

    assert found == {"cpu[0]": 68_000_000, "cpu[1]": 31_000_000}


@pytest.mark.parametrize("first", [(7_000_000, 7_000_000), (7_000_000, 900_000_000)])
def test_genuine_dies_are_summed_even_if_they_are_equal_once(tmp_path: Path, first: tuple[int, int]) -> None:
    for die, counter_uj in enumerate(first):
        write_zone(tmp_path, f"intel-rapl:{die}", f"package-0-die-{die}", counter_uj)
    meter = powercap.build(context(tmp_path, vendor="GenuineIntel"))

    found = energies(meter, tmp_path, {"intel-rapl:0": 150_000_000, "intel-rapl:1": 90_000_000})

    assert found == {"cpu[0]": 240_000_000}


def test_dies_of_an_unknown_maker_that_differ_are_summed(tmp_path: Path) -> None:
    for die in range(2):
        write_zone(tmp_path, f"intel-rapl:{die}", f"package-0-die-{die}", die * 900_000_000)
    meter = powercap.build(context(tmp_path, vendor=None))

    assert energies(meter, tmp_path, {"intel-rapl:0": 50_000_000, "intel-rapl:1": 40_000_000}) == {"cpu[0]": 90_000_000}


def test_the_socket_is_in_the_name_not_in_the_directory_case_energy_r8(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-1", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1:0", "dram", 0)
    meter = powercap.build(context(tmp_path, sockets=("0", "1")))

    assert zones(meter.read(0)) == {
        "intel-rapl:1": "cpu[0]",
        "intel-rapl:0": "cpu[1]",
        "intel-rapl:1:0": "dram[0]",
        "intel-rapl:0:0": "dram[1]",
    }


def test_a_lone_package_15_is_socket_15_case_energy_r9(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-15", 0)

    assert powercap.build(context(tmp_path, sockets=("15",))).domains == (cpu("15"),)


def test_sockets_with_different_children_keep_their_names_case_energy_r10(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 0)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0)
    write_zone(tmp_path, "intel-rapl:1:0", "dram", 0)
    meter = powercap.build(context(tmp_path, sockets=("0", "1")))

    assert zones(meter.read(0)) == {
        "intel-rapl:0": "cpu[0]",
        "intel-rapl:1": "cpu[1]",
        "intel-rapl:0:1": "dram[0]",
        "intel-rapl:1:0": "dram[1]",
    }


def test_without_dram_there_is_no_dram_domain_case_energy_r12_case_energy_a6(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    meter = powercap.build(context(tmp_path, vendor="AuthenticAMD"))

    assert meter.domains == (cpu("0"),)
    assert [reading.domain for reading in meter.read(0)] == [cpu("0")]


def test_counters_closed_to_us_are_unavailable_for_want_of_permission_case_energy_r16(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    fs = FaultyFS(tmp_path)
    fs.closed["energy_uj"] = EACCES

    with pytest.raises(Unavailable, match="intel-rapl:0/energy_uj") as caught:
        powercap.build(context(fs))

    assert caught.value.reason == "permission"


def test_permission_lost_while_running_is_a_failure_of_that_read_case_energy_r16(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    fs = FaultyFS(tmp_path)
    meter = powercap.build(context(fs))
    fs.mute["energy_uj"] = EACCES

    with pytest.raises(Unavailable) as caught:
        meter.read(0)
    fs.mute.clear()

    assert caught.value.reason == "permission"
    assert len(meter.read(SECOND)) == 1


@pytest.mark.parametrize("number", [EINVAL, ENODATA, EIO])
def test_a_mute_zone_is_left_out_alone_case_energy_r17(tmp_path: Path, number: int) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)
    fs = FaultyFS(tmp_path)
    fs.mute["intel-rapl:0:0/energy_uj"] = number

    assert powercap.build(context(fs)).domains == (cpu("0"),)


@pytest.mark.parametrize("number", [EINVAL, ENODATA, EIO])
def test_zones_that_are_all_mute_are_unsupported_case_energy_r17(tmp_path: Path, number: int) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    fs = FaultyFS(tmp_path)
    fs.mute["energy_uj"] = number

    with pytest.raises(Unavailable) as caught:
        powercap.build(context(fs))

    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize("content", ["", "garbage", "-5", "1e9", "0x10", "12 34"])
def test_a_counter_that_is_no_number_is_unsupported(tmp_path: Path, content: str) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", content)

    with pytest.raises(Unavailable) as caught:
        powercap.build(context(tmp_path))

    assert caught.value.reason == "unsupported"


def test_what_can_be_mended_is_the_reason_shown(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0)
    fs = FaultyFS(tmp_path)
    fs.mute["intel-rapl:0/energy_uj"] = EINVAL
    fs.closed["intel-rapl:1/energy_uj"] = EACCES

    with pytest.raises(Unavailable) as caught:
        powercap.build(context(fs))

    assert caught.value.reason == "permission"


@pytest.mark.parametrize("directories", [[], ["class/powercap"], ["class/powercap/intel-rapl"]])
def test_a_machine_without_zones_is_absent_case_energy_r18(tmp_path: Path, directories: list[str]) -> None:
    for directory in directories:
        (tmp_path / directory).mkdir(parents=True)

    for module in (powercap, psys):
        with pytest.raises(Unavailable) as caught:
            module.build(context(tmp_path))
        assert caught.value.reason == "absent"


@pytest.mark.parametrize(("vendor", "expected"), [("AuthenticAMD", 7_000_000), ("GenuineIntel", 14_000_000)])
def test_zones_of_one_name_may_be_mirrors_too(tmp_path: Path, vendor: str, expected: int) -> None:  # kind of r6
    for directory in ("intel-rapl:0", "intel-rapl:1"):  # before kernel 5.3 a zone's name had no die in it
        write_zone(tmp_path, directory, "package-0", 100)
    meter = powercap.build(context(tmp_path, vendor=vendor))

    found = energies(meter, tmp_path, {"intel-rapl:0": 7_000_000, "intel-rapl:1": 7_000_000})

    assert found == {"cpu[0]": expected}


def test_two_top_level_dram_zones_of_one_name_are_two_case_energy_r20(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0)
    write_zone(tmp_path, "intel-rapl:2", "dram", 0)
    write_zone(tmp_path, "intel-rapl:3", "dram", 0)
    meter = powercap.build(context(tmp_path, sockets=("0", "1")))

    found = energies(meter, tmp_path, {"intel-rapl:2": 4_000_000, "intel-rapl:3": 6_000_000, "intel-rapl:0": 1})

    assert found == {"cpu[0]": 1, "dram[0]": 4_000_000, "dram[1]": 6_000_000}


def test_a_top_level_dram_zone_is_the_socket_s_that_has_none_inside(tmp_path: Path) -> None:  # kind of case_energy_r20
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0)
    write_zone(tmp_path, "intel-rapl:2", "dram", 0)

    meter = powercap.build(context(tmp_path, sockets=("0", "1")))

    found = zones(meter.read(0))
    assert (found["intel-rapl:0:0"], found["intel-rapl:2"]) == ("dram[0]", "dram[1]")


def test_top_level_dram_zones_without_packages_are_ranked(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:a", "dram", 0)
    write_zone(tmp_path, "intel-rapl:9", "dram", 0)
    write_zone(tmp_path, "intel-rapl:b", "dram-7", 0)

    meter = powercap.build(context(tmp_path))

    assert zones(meter.read(0)) == {"intel-rapl:9": "dram[0]", "intel-rapl:a": "dram[1]", "intel-rapl:b": "dram[7]"}


def test_dram_is_not_inside_package_case_energy_r21(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)

    found = energies(
        powercap.build(context(tmp_path)), tmp_path, {"intel-rapl:0": 40_000_000, "intel-rapl:0:0": 8_000_000}
    )

    assert found == {"cpu[0]": 40_000_000, "dram[0]": 8_000_000}


@pytest.mark.parametrize("model", ["Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz", "Intel(R) Xeon(R) Platinum 8480+"])
def test_the_kernels_microjoules_are_trusted_on_every_model_case_energy_r22(tmp_path: Path, model: str) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0, range_uj=RANGE_AMD)

    found = energies(powercap.build(context(tmp_path, model=model)), tmp_path, {"intel-rapl:0:0": 4_000_000})

    assert found == {"dram[0]": 4_000_000}


@pytest.mark.parametrize(
    ("files", "expected_w"),
    [
        pytest.param({}, 500, id="case_energy_r29 no limit files"),
        pytest.param({"constraint_0_power_limit_uw": 205 * WATT}, 500, id="low limit"),
        pytest.param(
            {"constraint_0_power_limit_uw": 350 * WATT, "constraint_1_power_limit_uw": 420 * WATT}, 840, id="2x"
        ),
        pytest.param({"constraint_0_power_limit_uw": 4_095_875_000}, 500, id="unlimited"),
        pytest.param({"constraint_0_power_limit_uw": 0, "constraint_1_power_limit_uw": "garbage"}, 500, id="nothing"),
        pytest.param({"constraint_0_power_limit_uw": -1}, 500, id="negative"),
    ],
)
def test_power_limits_are_optional_files(tmp_path: Path, files: dict[str, int | str], expected_w: int) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files=files)

    assert powercap.build(context(tmp_path)).p_max_uw(cpu("0")) == expected_w * WATT


def test_p_max_of_dies_memory_and_platform(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0-die-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-0-die-1", 0)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)
    write_zone(tmp_path, "intel-rapl:2", "psys", 0)

    meter = powercap.build(context(tmp_path))

    assert meter.p_max_uw(cpu("0")) == 1000 * WATT
    assert meter.p_max_uw(dram("0")) == 200 * WATT
    assert psys.build(context(tmp_path)).p_max_uw(PLATFORM) == 2000 * WATT


def test_mmio_alone_is_kept(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl-mmio:0:0", "dram", 0)

    assert powercap.build(context(tmp_path)).domains == (cpu("0"), dram("0"))


def test_mmio_serves_where_the_other_path_is_mute(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    fs = FaultyFS(tmp_path)
    fs.mute["intel-rapl:0/energy_uj"] = EINVAL

    assert zones(powercap.build(context(fs)).read(0)) == {"intel-rapl-mmio:0": "cpu[0]"}


def test_mmio_adds_the_dram_that_the_other_path_lacks(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl-mmio:0:0", "dram", 0)

    assert zones(powercap.build(context(tmp_path)).read(0)) == {
        "intel-rapl:0": "cpu[0]",
        "intel-rapl-mmio:0:0": "dram[0]",
    }


def test_a_mirror_by_mmio_changes_nothing_of_genuine_dies(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0-die-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-0-die-1", 10**9)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    meter = powercap.build(context(tmp_path))

    assert energies(meter, tmp_path, {"intel-rapl:0": 3, "intel-rapl:1": 4, "intel-rapl-mmio:0": 7}) == {"cpu[0]": 7}


def test_another_driver_serves_as_well(tmp_path: Path) -> None:
    write_zone(tmp_path, "arm-scmi:0", "soc", 0, range_uj=2**64 - 1)
    write_zone(tmp_path, "arm-scmi:1", "ddr", 0, range_uj=None)

    assert powercap.build(context(tmp_path, vendor=None)).domains == (cpu("0"), dram("0"))


def test_zones_of_other_meaning_or_without_a_counter_are_left_alone(tmp_path: Path) -> None:
    write_zone(tmp_path, "dtpm:0", "soc", 0).joinpath("energy_uj").unlink()
    write_zone(tmp_path, "intel-rapl:0", "core", 0)
    write_zone(tmp_path, "intel-rapl:1", "", 0)

    with pytest.raises(Unavailable) as caught:
        powercap.build(context(tmp_path))

    assert caught.value.reason == "absent"


def test_zones_nested_as_in_devices_are_found_once(tmp_path: Path) -> None:
    for nested in (True, False):
        write_zone(tmp_path, "intel-rapl:0", "package-0", 0, nested=nested)
        write_zone(tmp_path, "intel-rapl:0:0", "dram", 0, nested=nested)
    nested_only = tmp_path / "copy"
    write_zone(nested_only, "intel-rapl:0", "package-0", 0, nested=True)
    write_zone(nested_only, "intel-rapl:0:0", "dram", 0, nested=True)

    for root in (tmp_path, nested_only):
        meter = powercap.build(context(root))
        assert zones(meter.read(0)) == {"intel-rapl:0": "cpu[0]", "intel-rapl:0:0": "dram[0]"}


def test_the_order_of_directories_means_nothing(tmp_path: Path) -> None:
    names = [("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1"), ("intel-rapl:2", "psys")]
    found = []
    for attempt in range(3):
        root = tmp_path / str(attempt)
        for directory, name in random.Random(attempt).sample(names, len(names)):
            write_zone(root, directory, name, 5)
        found.append(powercap.build(context(root)).read(0))

    assert found[0] == found[1] == found[2]


def test_a_counter_that_stands_still_for_a_minute_is_stuck(tmp_path: Path) -> None:
    path = write_zone(tmp_path, "intel-rapl:0", "package-0", 500)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0)
    meter = powercap.build(context(tmp_path))
    meter.read(0)
    (path / "energy_uj").write_text("501\n")
    meter.read(30 * SECOND)

    alone = meter.read(61 * SECOND)
    with pytest.raises(Unavailable) as caught:
        meter.read(91 * SECOND)
    (path / "energy_uj").write_text("502\n")

    assert zones(alone) == {"intel-rapl:0": "cpu[0]"}
    assert caught.value.reason == "stuck"
    assert zones(meter.read(92 * SECOND)) == {"intel-rapl:0": "cpu[0]"}


def test_a_server_with_odd_psys_still_has_its_packages(tmp_path: Path) -> None:
    """Sapphire Rapids: psys counts in joules and says it is off."""
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0)
    write_zone(
        tmp_path, "intel-rapl:2", "psys", 60_293_987_000_000, range_uj=4_294_967_295_000_000, files={"enabled": 0}
    )
    (reading,) = psys.build(context(tmp_path)).read(0)

    assert powercap.build(context(tmp_path, sockets=("0", "1"))).domains == (cpu("0"), cpu("1"))
    assert (reading.counter_uj, reading.range_uj) == (60_293_987_000_000, 4_294_967_295_000_000)


def test_psys_of_two_sockets_is_summed_but_a_mirror_counts_once(tmp_path: Path) -> None:
    apart, mirror = tmp_path / "apart", tmp_path / "mirror"
    for root, second in ((apart, 900_000_000), (mirror, 1_000)):
        write_zone(root, "intel-rapl:1", "psys", 1_000)
        write_zone(root, "intel-rapl:3", "psys", second)
    deltas = {"intel-rapl:1": 300_000_000, "intel-rapl:3": 300_000_000}

    assert energies(psys.build(context(apart)), apart, deltas) == {"platform": 600_000_000}
    assert energies(psys.build(context(mirror)), mirror, deltas) == {"platform": 300_000_000}


def test_every_descriptor_is_given_back(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "package-1", "garbage")
    fs = FaultyFS(tmp_path)

    meter = powercap.build(context(fs))
    held = fs.kept_files
    meter.close()

    assert (held, fs.kept_files) == (1, 0)
