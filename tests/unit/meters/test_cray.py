"""Cray's counters as a meter: what counts for what, and which readings are no energy."""

import errno
from pathlib import Path

import pytest
from tests.unit.meters.pm_tree import write_counters
from tests.unit.meters.powercap_tree import FaultyFS, context

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters import cray
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.meters.model import idle_table_uw
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
WATT = 1_000_000
NODE = {"energy": 5000, "cpu_energy": 1000, "memory_energy": 300, "accel0_energy": 900, "accel1_energy": 800}


def by_domain(bank: MeterBank) -> dict[str, int]:
    return {str(domain): energy_uj // WATT for (_, domain), energy_uj in bank.totals_uj.items() if energy_uj}


def run(root: Path, *moments: dict[str, int], sockets: tuple[str, ...] = ("0",)) -> MeterBank:
    """Return a bank that read these joules, each a second after the one before."""
    bank = None
    for second, joules in enumerate(moments):
        write_counters(root, joules, freshness=10 * second, device_us=10**15 + second * 1_000_000)
        bank = bank or MeterBank([cray.build(context(root, sockets=sockets))], {}, SECOND)
        bank.read(second * SECOND, suspended=False)
    assert bank is not None
    return bank


def test_a_node_with_accelerators__case_ceems_239_261(tmp_path: Path) -> None:
    after = {"energy": 6100, "cpu_energy": 1200, "memory_energy": 340, "accel0_energy": 1200, "accel1_energy": 1200}

    bank = run(tmp_path, NODE, after)

    assert by_domain(bank) == {"cpu[0]": 200, "dram[0]": 40, "gpu[accel0]": 300, "gpu[accel1]": 400, "platform": 1100}


def test_the_meter_measures_the_whole_node(tmp_path: Path) -> None:
    write_counters(tmp_path, NODE)

    meter = cray.build(context(tmp_path))

    assert (meter.source, meter.method, meter.covers) == ("cray", Method.COUNTER, frozenset(Component))
    assert meter.p_max_uw(PLATFORM) == 2000 * WATT
    assert meter.p_max_uw(Domain(DomainKind.GPU, "accel0")) == 1500 * WATT


def test_one_counter_for_two_sockets_belongs_to_neither_alone(tmp_path: Path) -> None:
    write_counters(tmp_path, NODE)
    two = context(tmp_path, sockets=("0", "1"), model="AMD EPYC 7763 64-Core Processor")

    meter = cray.build(two)

    whole = Domain(DomainKind.CPU)
    assert whole in meter.domains
    assert meter.p_max_uw(whole) == 2000 * WATT
    assert meter.p_max_uw(Domain(DomainKind.DRAM)) == 400 * WATT
    assert idle_table_uw(two, whole) == 2 * idle_table_uw(two, Domain(DomainKind.CPU, "0"))


def test_a_counter_for_each_socket_makes_their_sum_superfluous(tmp_path: Path) -> None:
    before = {"cpu_energy": 100, "cpu0_energy": 50, "cpu1_energy": 50}
    after = {"cpu_energy": 400, "cpu0_energy": 250, "cpu1_energy": 150}

    assert by_domain(run(tmp_path, before, after, sockets=("0", "1"))) == {"cpu[0]": 200, "cpu[1]": 100}


def test_the_sum_of_all_accelerators_is_used_only_alone(tmp_path: Path) -> None:
    both = run(tmp_path / "a", {"accel_energy": 1, "accel0_energy": 1}, {"accel_energy": 99, "accel0_energy": 99})
    alone = run(tmp_path / "b", {"accel_energy": 1}, {"accel_energy": 99})

    assert (by_domain(both), by_domain(alone)) == ({"gpu[accel0]": 98}, {"gpu[accel]": 98})


def test_what_says_0_has_no_sensor(tmp_path: Path) -> None:
    bank = run(tmp_path, {"energy": 100, "memory_energy": 0}, {"energy": 200, "memory_energy": 0})

    assert by_domain(bank) == {"platform": 100}
    assert ("cray", Domain(DomainKind.DRAM, "0")) not in bank.totals_uj


def test_a_device_that_only_says_0_is_not_supported(tmp_path: Path) -> None:
    write_counters(tmp_path, {"energy": 0, "cpu_energy": 0})

    with pytest.raises(Unavailable) as caught:
        cray.build(context(tmp_path))

    assert caught.value.reason == "unsupported"


def test_a_removed_accelerator_is_missing_not_zero(tmp_path: Path) -> None:
    fs = FaultyFS(tmp_path)
    write_counters(tmp_path, NODE)
    bank = MeterBank([cray.build(context(fs))], {}, SECOND)
    bank.read(0, suspended=False)
    fs.mute["accel0_energy"] = errno.ENODEV
    write_counters(tmp_path, {"energy": 9000}, freshness=99, device_us=2 * 10**15)

    steps = bank.read(9 * SECOND, suspended=False)

    assert "gpu[accel0]" not in {str(step.domain) for step in steps}
    assert bank.health["cray"].up


@pytest.mark.parametrize("value", [7, 10_000])
def test_another_startup_is_a_reset_whatever_the_counters_say(tmp_path: Path, value: int) -> None:
    bank = run(tmp_path, {"energy": 5000}, {"energy": 5100})
    for second, joules in ((2, value), (3, value + 50)):
        write_counters(tmp_path, {"energy": joules}, freshness=second, startup=2_000_000_000, device_us=second)
        bank.read(second * SECOND, suspended=False)

    assert by_domain(bank) == {"platform": 150}
    assert sum(bank.gaps["cray"].by_cause.values()) == 1


def test_a_device_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    bank = run(tmp_path, {"energy": 5000}, {"energy": 5100})
    for second, joules in ((2, 5200), (3, 5300)):
        write_counters(tmp_path, {"energy": joules}, freshness=99 + second, device_us=second)
        bank.read(second * SECOND, suspended=False)

    assert by_domain(bank) == {"platform": 300}
    assert not bank.gaps["cray"].by_cause


def test_an_old_set_is_not_fresh(tmp_path: Path) -> None:
    bank = run(tmp_path, {"energy": 5000}, {"energy": 5100})

    (step,) = bank.read(2 * SECOND, suspended=False)

    assert not step.step.fresh


def test_a_dead_controller_is_stuck(tmp_path: Path) -> None:
    bank = run(tmp_path, {"energy": 5000}, {"energy": 5100})
    for second in (6, 12):
        bank.read(second * SECOND, suspended=False)

    assert (bank.health["cray"].up, bank.health["cray"].reason) == (False, "stuck")
