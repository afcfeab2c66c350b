"""RAPL by perf: which event counts for what, when it is opened at all, and what a refusal leaves."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.meters.perf_tree import PKG, PSYS, RAM, FakeKernel, write_unit
from tests.unit.meters.powercap_tree import EACCES, EINVAL, FaultyFS, context, write_zone

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.meters import perf, perf_psys
from kwhere.meters.meter import PLATFORM, Domain, MeterContext
from kwhere.meters.perf_settings import PerfSettings
from kwhere.meters.registry import build_meters
from kwhere.meters.settings import MeterSettings
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
WATT = 1_000_000
CPU0, CPU1 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.CPU, "1")
DRAM0, DRAM1 = Domain(DomainKind.DRAM, "0"), Domain(DomainKind.DRAM, "1")


@pytest.fixture
def kernel() -> Iterator[FakeKernel]:
    fake = FakeKernel()
    yield fake
    fake.close()


def energies(bank: MeterBank, kernel: FakeKernel, *rounds: dict[tuple[int, int], int]) -> dict[str, int]:
    """Return joules by domain after the events stood at these joules, a second apart."""
    for second, counts in enumerate(rounds):
        for (config, cpu), joules in counts.items():
            kernel.joules(config, cpu, joules)
        bank.read(second * SECOND, suspended=False)
    return {str(domain): energy_uj // WATT for (_, domain), energy_uj in bank.totals_uj.items()}


def test_the_cpu_of_the_mask_says_the_socket_not_its_place_in_it(tmp_path: Path, kernel: FakeKernel) -> None:
    """Sockets numbered the other way round than the mask: cpumask 0,2 with CPU 0 on socket 1."""
    write_unit(tmp_path, "0,2", "energy-pkg", "energy-ram")
    meter = perf.build(context(tmp_path, sockets=("1", "0")), kernel.open)
    bank = MeterBank([meter], {}, SECOND)

    found = energies(
        bank,
        kernel,
        {(PKG, 0): 1, (PKG, 2): 2, (RAM, 0): 0, (RAM, 2): 0},
        {(PKG, 0): 101, (PKG, 2): 52, (RAM, 0): 10, (RAM, 2): 5},
    )

    assert found == {"cpu[1]": 100, "cpu[0]": 50, "dram[1]": 10, "dram[0]": 5}
    assert (meter.source, meter.method, meter.covers, meter.needs_proof) == (
        "perf",
        Method.COUNTER,
        frozenset(),
        False,
    )
    assert meter.p_max_uw(CPU0) == 500 * WATT
    assert meter.p_max_uw(DRAM1) == 200 * WATT


def test_genuine_dies_of_a_socket_are_summed(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0,1", "energy-pkg")
    bank = MeterBank([perf.build(context(tmp_path), kernel.open)], {}, SECOND)

    assert energies(bank, kernel, {(PKG, 0): 0, (PKG, 1): 0}, {(PKG, 0): 70, (PKG, 1): 30}) == {"cpu[0]": 100}


def test_dies_that_mirror_one_counter_count_once_case_energy_r6(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0,1", "energy-pkg")
    bank = MeterBank([perf.build(context(tmp_path, vendor="AuthenticAMD"), kernel.open)], {}, SECOND)

    assert energies(bank, kernel, {(PKG, 0): 0, (PKG, 1): 0}, {(PKG, 0): 68, (PKG, 1): 68}) == {"cpu[0]": 68}


def test_two_dies_may_draw_what_two_dies_draw(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0,1", "energy-pkg")

    assert perf.build(context(tmp_path), kernel.open).p_max_uw(CPU0) == 1000 * WATT


def test_powercap_speaks_where_it_can_be_read_and_events_are_not_opened(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg", "energy-psys")
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "psys", 0)

    for module in (perf, perf_psys):
        with pytest.raises(Unavailable) as caught:
            module.build(context(tmp_path), kernel.open)
        assert caught.value.reason == "spare"
    assert kernel.opened == []


@pytest.mark.parametrize(
    "settings",
    [MeterSettings(perf=PerfSettings(beside_powercap=True)), MeterSettings(off=frozenset({"powercap", "psys"}))],
)
def test_events_are_opened_beside_powercap_where_the_site_asks(
    tmp_path: Path, kernel: FakeKernel, settings: MeterSettings
) -> None:
    write_unit(tmp_path, "0", "energy-pkg", "energy-psys")
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "psys", 0)

    assert perf.build(context(tmp_path, settings=settings), kernel.open).domains == (CPU0,)
    assert perf_psys.build(context(tmp_path, settings=settings), kernel.open).domains == (PLATFORM,)


@pytest.mark.parametrize("number", [EACCES, EINVAL])
def test_events_stand_in_for_counters_that_are_closed(tmp_path: Path, kernel: FakeKernel, number: int) -> None:
    """case_energy_r16: a kernel since CVE-2020-8694 and a user with CAP_PERFMON."""
    fs = FaultyFS(tmp_path)
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files={"constraint_0_power_limit_uw": 350 * WATT})
    fs.closed["energy_uj"] = number
    write_unit(tmp_path, "0", "energy-pkg")

    meter = perf.build(context(fs), kernel.open)

    assert meter.domains == (CPU0,)
    assert meter.p_max_uw(CPU0) == 700 * WATT  # the limit stays readable


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "permission"),
        (errno.EPERM, "permission"),
        (errno.EINVAL, "unsupported"),
        (errno.ENODEV, "unsupported"),
    ],
)
def test_a_refusal_is_a_reason(tmp_path: Path, kernel: FakeKernel, number: int, reason: str) -> None:
    write_unit(tmp_path, "0", "energy-pkg")
    kernel.refused[PKG, 0] = number

    with pytest.raises(Unavailable) as caught:
        perf.build(context(tmp_path), kernel.open)

    assert caught.value.reason == reason


def test_an_event_that_the_part_has_not_leaves_the_others(tmp_path: Path, kernel: FakeKernel) -> None:
    """Kernels before 5.17 list energy-ram on AMD parts without it."""
    write_unit(tmp_path, "0", "energy-pkg", "energy-ram")
    kernel.refused[RAM, 0] = errno.EINVAL

    assert perf.build(context(tmp_path, vendor="AuthenticAMD"), kernel.open).domains == (CPU0,)


def test_a_cpu_of_the_mask_that_is_offline_is_left_out(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0,64", "energy-pkg")

    assert perf.build(context(tmp_path), kernel.open).domains == (CPU0,)
    assert kernel.opened == [(23, PKG, 0)]


def test_psys_is_the_platform_and_has_to_prove_itself(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg", "energy-psys")

    meter = perf_psys.build(context(tmp_path), kernel.open)

    assert (meter.source, meter.domains, meter.needs_proof) == ("perf_psys", (PLATFORM,), True)
    assert meter.covers == {Component.CPU, Component.DRAM, Component.OTHER}
    assert kernel.opened == [(23, PSYS, 0)]


def test_a_unit_without_psys_has_no_platform(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg")

    with pytest.raises(Unavailable) as caught:
        perf_psys.build(context(tmp_path), kernel.open)

    assert caught.value.reason == "absent"


def test_a_new_process_begins_with_a_baseline_and_a_counted_gap(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg")
    first = MeterBank([perf.build(context(tmp_path), kernel.open)], {}, SECOND)
    kernel.joules(PKG, 0, 0)
    first.read(0, suspended=False)
    kernel.joules(PKG, 0, 5)
    first.read(SECOND, suspended=False)
    second_kernel = FakeKernel()
    second = MeterBank([perf.build(context(tmp_path), second_kernel.open)], {}, SECOND)
    second.restore(first.saved())

    # the new count lies above the old one: only the opening tells that they have nothing in common
    for now, joules in ((60, 30), (61, 37)):
        second_kernel.joules(PKG, 0, joules)
        second.read(now * SECOND, suspended=False)
    second_kernel.close()

    assert second.totals_uj["perf", CPU0] == 7 * WATT
    assert sum(second.gaps["perf"].by_cause.values()) == 1


def test_a_read_that_fails_once_loses_nothing(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg")
    bank = MeterBank([perf.build(context(tmp_path), kernel.open)], {}, SECOND)

    found = energies(bank, kernel, {(PKG, 0): 0}, {}, {(PKG, 0): 90})

    assert found == {"cpu[0]": 90}
    assert bank.health["perf"].up


def test_a_dead_event_is_stuck(tmp_path: Path, kernel: FakeKernel) -> None:
    write_unit(tmp_path, "0", "energy-pkg")
    meter = perf.build(context(tmp_path), kernel.open)
    for now in (0, 61):
        kernel.count(PKG, 0, 0)
        if now:
            with pytest.raises(Unavailable) as caught:
                meter.read(now * SECOND)
        else:
            meter.read(0)

    assert caught.value.reason == "stuck"


def test_nothing_is_opened_for_the_files_of_another_machine(tmp_path: Path) -> None:
    write_unit(tmp_path, "0", "energy-pkg")

    with pytest.raises(Unavailable) as caught:
        perf.build(context(tmp_path))

    assert caught.value.reason == "recorded"


def test_this_machine_says_why_it_has_no_unit() -> None:
    live = MeterContext(HostFS(), {0: "0"}, None, None, None, dict)

    status = {source.source: source for source in build_meters(live, [perf.plugin, perf_psys.plugin]).sources}

    assert all(found.up or found.reason in ("absent", "permission", "spare") for found in status.values())
