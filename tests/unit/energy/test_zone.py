"""Zones and domains over time: baselines, wraps, gaps, power integrated."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.counters import GapCause
from kwhere.energy.zone import Advance, DomainStep, DomainTrack, Gap, ZoneReading, ZoneState, ZoneTrack

SECOND = 1_000_000_000
WATT = 1_000_000
RANGE = 262_143_328_850


def track(hold_s: int = 3, p_max_w: int = 500) -> ZoneTrack:
    return ZoneTrack(p_max_uw=p_max_w * WATT, hold_ns=hold_s * SECOND)


def counted(time_s: float, counter_uj: int, **more: int | bool) -> ZoneReading:
    time_ns = round(time_s * SECOND)
    return ZoneReading(time_ns, counter_uj=counter_uj, range_uj=RANGE, **more)  # type: ignore[arg-type]


def watts(time_s: float, power_w: float) -> ZoneReading:
    return ZoneReading(round(time_s * SECOND), power_uw=round(power_w * WATT))


def test_first_reading_is_a_baseline_never_energy_case_energy_r25() -> None:
    zone = track()

    first = zone.advance(counted(5, 123_456_789_000))

    assert first == Advance(fresh=False)
    assert zone.advance(counted(6, 123_506_789_000)) == Advance(fresh=True, energy_uj=50_000_000, span_ns=SECOND)


def test_no_time_no_power_but_the_counter_is_kept_case_energy_r25() -> None:  # r28
    zone = track()
    zone.advance(counted(5, 0))

    same_moment = zone.advance(counted(5, 40_000_000))
    earlier = zone.advance(counted(4, 40_000_000))
    later = zone.advance(counted(6, 100_000_000))

    assert same_moment == earlier == Advance(fresh=False)
    assert later.energy_uj == 100_000_000


def test_a_short_step_is_not_extrapolated_case_energy_r28() -> None:
    zone = track()
    zone.advance(counted(5, 0))

    assert zone.advance(counted(5.01, 700_000)).energy_uj == 700_000


def test_node_total_never_falls_around_a_wrap_case_energy_r26() -> None:
    zone = track()
    total = 0
    for time_s, counter_uj in enumerate([262_143_000_000, 262_143_200_000, 100_000, 400_000]):
        total += zone.advance(counted(time_s, counter_uj)).energy_uj or 0

    # 200000 + (128850 + 61 + 100000) + 300000
    assert total == 728_911


@pytest.mark.parametrize(
    ("counters", "energies", "gaps"),
    [
        pytest.param(
            [194127997354, 45766381128, 45831036419, 45895297790, 194961270917],
            [None, None, 64655291, 64261371, None],
            [None, GapCause.RESET, None, None, GapCause.IMPLAUSIBLE],
            id="case_energy_r14 two physical counters in turn",
        ),
        pytest.param(
            [10**15, 9 * 10**15, 3 * 10**15],
            [None, None, None],
            [None, GapCause.IMPLAUSIBLE, GapCause.RESET],
            id="case_energy_r14 peta-joules",
        ),
        pytest.param(
            [5_000_000, 9_005_000_000, 9_040_000_000],
            [None, None, 35_000_000],
            [None, GapCause.IMPLAUSIBLE, None],
            id="case_energy_r13",
        ),
    ],
)
def test_nonsense_adds_nothing_and_what_follows_counts_again(
    counters: list[int], energies: list[int | None], gaps: list[GapCause | None]
) -> None:
    zone = track()

    steps = [zone.advance(counted(time_s, counter_uj)) for time_s, counter_uj in enumerate(counters)]

    assert [step.energy_uj for step in steps] == energies
    assert [step.gap for step in steps] == gaps


@pytest.mark.parametrize("counter_uj", [0, 5_000_000, 180_000_000_000])
def test_suspend_is_a_gap_whatever_the_counter_says_case_energy_r24(counter_uj: int) -> None:
    zone = track()
    zone.advance(counted(0, 5_000_000))

    woken = zone.advance(counted(3600, counter_uj), suspended=True)

    assert woken == Advance(fresh=False, span_ns=3600 * SECOND, gap=GapCause.SUSPEND)
    assert zone.advance(counted(3601, counter_uj + 7)).energy_uj == 7


def test_an_unchanged_counter_waits_and_the_span_grows() -> None:
    zone = track()
    zone.advance(counted(0, 100))

    assert zone.advance(counted(1, 100)) == Advance(fresh=False)
    assert zone.advance(counted(2, 300)) == Advance(fresh=True, energy_uj=200, span_ns=2 * SECOND)


def test_with_a_device_clock_only_a_newer_time_is_fresh() -> None:
    zone = track()
    zone.advance(counted(0, 100, device_time=True))

    assert zone.advance(counted(0, 100, device_time=True)) == Advance(fresh=False)
    assert zone.advance(counted(1, 100, device_time=True)) == Advance(fresh=True, energy_uj=0, span_ns=SECOND)


def test_a_zones_own_p_max_comes_first() -> None:
    zone = track(p_max_w=10_000)
    zone.advance(counted(0, 0, p_max_uw=100 * WATT))

    assert zone.advance(counted(1, 150_000_000, p_max_uw=100 * WATT)).gap is GapCause.IMPLAUSIBLE


@given(
    power_w=st.integers(1, 400),
    cuts=st.lists(st.integers(1, 9_999), max_size=20, unique=True),
)
def test_constant_power_gives_power_times_time_for_any_samples(power_w: int, cuts: list[int]) -> None:
    zone = track(hold_s=11)
    times_ms = sorted({0, 10_000, *cuts})

    total = sum(zone.advance(watts(time_ms / 1000, power_w)).energy_uj or 0 for time_ms in times_ms)

    assert total == power_w * 10 * WATT


def test_power_between_two_samples_is_their_mean() -> None:
    zone = track()
    zone.advance(watts(0, 100))

    assert zone.advance(watts(2, 200)) == Advance(fresh=True, energy_uj=300_000_000, span_ns=2 * SECOND)


def test_watts_every_five_seconds_are_watts_times_seconds_case_energy_a12() -> None:
    zone = track(hold_s=15)

    total = sum(zone.advance(watts(time_s, 40)).energy_uj or 0 for time_s in range(0, 61, 5))

    assert total == 40 * 60 * WATT


def test_a_sample_does_not_hold_longer_than_three_refreshes() -> None:
    zone = track(hold_s=3)
    zone.advance(watts(0, 100))

    assert zone.advance(watts(3.5, 100)) == Advance(fresh=False, span_ns=round(3.5 * SECOND), gap=GapCause.STALE)
    assert zone.advance(watts(4.5, 100)).energy_uj == 100_000_000


def test_an_impossible_power_is_a_gap_and_no_baseline() -> None:
    zone = track()
    zone.advance(watts(0, 100))

    lost = Advance(fresh=False, span_ns=SECOND, gap=GapCause.IMPLAUSIBLE)
    assert zone.advance(watts(1, 501)) == lost
    assert zone.advance(watts(2, 100)) == lost  # half of that second is the impossible sample's
    assert zone.advance(watts(3, 100)).energy_uj == 100_000_000


def test_an_impossible_power_at_first_is_no_baseline_and_survives_a_restart() -> None:
    before = track()
    assert before.advance(watts(0, 501)) == Advance(fresh=False, gap=GapCause.IMPLAUSIBLE)
    state = before.saved()
    assert state is not None
    after = track()

    after.restore(ZoneState(**json.loads(json.dumps(dataclasses.asdict(state)))))

    assert after.advance(watts(1, 100)) == Advance(fresh=False, span_ns=SECOND, gap=GapCause.IMPLAUSIBLE)
    assert after.advance(watts(2, 100)).energy_uj == 100_000_000


def test_a_source_that_changes_its_kind_starts_anew() -> None:
    zone = track()
    zone.advance(watts(0, 100))

    assert zone.advance(counted(1, 10**9)) == Advance(fresh=False)


def test_a_restart_in_the_same_boot_books_the_missing_interval_case_energy_a14() -> None:
    before = track()
    before.advance(counted(0, 1_000_000))
    state = before.saved()
    assert state is not None
    after = track()

    after.restore(ZoneState(**json.loads(json.dumps(dataclasses.asdict(state)))))

    assert after.advance(counted(100, 5_001_000_000)).energy_uj == 5_000_000_000


def test_a_restart_after_more_than_one_possible_turn_is_a_gap() -> None:
    zone = track()
    zone.restore(ZoneState(0, 1_000_000))

    assert zone.advance(counted(525, 2_000_000)).gap is GapCause.AMBIGUOUS


def test_a_zone_never_read_has_nothing_to_save() -> None:
    assert track().saved() is None


def domain(p_max_w: int = 1000) -> DomainTrack:
    return DomainTrack(p_max_uw=p_max_w * WATT, hold_ns=3 * SECOND)


def test_zones_of_different_ranges_are_unwrapped_before_they_are_summed() -> None:
    both = domain()
    small, large = 65_532_610_987, 262_143_328_850

    def read(time_s: int, a: int, b: int) -> list[tuple[str, ZoneReading]]:
        now = time_s * SECOND
        return [
            ("a", ZoneReading(now, counter_uj=a, range_uj=small)),
            ("b", ZoneReading(now, counter_uj=b, range_uj=large)),
        ]

    both.advance(read(0, small, 1_000), 0)
    step = both.advance(read(1, 0, 2_000), SECOND)

    assert step == DomainStep(fresh=True, energy_uj=15 + 1_000, span_ns=SECOND)


def test_one_bad_zone_leaves_the_others_energy_and_a_gap() -> None:
    both = domain()
    both.advance([("a", counted(0, 100)), ("b", counted(0, 200))], 0)

    step = both.advance([("a", counted(1, 600)), ("b", counted(1, 10**12))], SECOND)

    assert step.energy_uj == 500
    assert step.gaps == (Gap(GapCause.IMPLAUSIBLE, SECOND, "b"),)


def test_a_domain_of_gaps_alone_is_not_fresh_and_its_span_starts_anew() -> None:
    one = domain()
    one.advance([("a", counted(0, 100))], 0)
    bad = one.advance([("a", counted(1, 10**12))], SECOND)
    good = one.advance([("a", counted(2, 10**12 + 5))], 2 * SECOND)

    assert (bad.fresh, bad.energy_uj) == (False, None)
    assert good == DomainStep(fresh=True, energy_uj=5, span_ns=SECOND)


def test_a_zone_that_was_not_read_adds_when_it_is_read_again() -> None:
    both = domain()
    both.advance([("a", counted(0, 0)), ("b", counted(0, 0))], 0)

    without = both.advance([("a", counted(1, 10))], SECOND)
    again = both.advance([("a", counted(2, 20)), ("b", counted(2, 7))], 2 * SECOND)

    assert without.energy_uj == 10
    assert again.energy_uj == 17


def test_no_readings_change_nothing() -> None:
    one = domain()
    one.advance([("a", counted(0, 0))], 0)

    assert one.advance([], SECOND) == DomainStep(fresh=False)
    assert one.advance([("a", counted(2, 8))], 2 * SECOND).span_ns == 2 * SECOND


def test_a_domain_goes_on_where_it_was_saved() -> None:
    before = domain()
    assert before.saved() is None
    before.advance([("a", counted(10, 100))], 10 * SECOND)
    state = before.saved()
    assert state is not None
    after = domain()

    after.restore(state)

    assert after.advance([("a", counted(70, 900))], 70 * SECOND) == DomainStep(
        fresh=True, energy_uj=800, span_ns=60 * SECOND
    )


@given(st.lists(st.integers(0, 400 * WATT), min_size=1, max_size=40), st.data())
def test_totals_are_the_same_for_any_sampling(deltas: list[int], data: st.DataObject) -> None:
    modulus = RANGE + 61
    truth = 262_000_000_000
    samples = [truth]
    for delta in deltas:
        truth += delta
        samples.append(truth)
    kept = data.draw(st.sets(st.integers(1, len(deltas)))) | {0, len(deltas)}

    totals = []
    for times in (range(len(samples)), sorted(kept)):
        zone = track()
        totals.append(sum(zone.advance(counted(time, samples[time] % modulus)).energy_uj or 0 for time in times))

    assert totals[0] == totals[1] == sum(deltas)


def test_a_domain_whose_counters_stand_still_is_not_fresh_and_its_span_grows() -> None:
    one = domain()
    one.advance([("a", counted(0, 100))], 0)

    assert one.advance([("a", counted(1, 100))], SECOND) == DomainStep(fresh=False)
    assert one.advance([("a", counted(2, 150))], 2 * SECOND).span_ns == 2 * SECOND


def parted(time_s: float, whole_uj: int, idle_uj: int, epoch: str = "a") -> ZoneReading:
    return ZoneReading(round(time_s * SECOND), counter_uj=whole_uj, idle_uj=idle_uj, epoch=epoch, device_time=True)


def test_a_part_is_counted_beside_the_whole() -> None:
    zone = track()
    zone.advance(parted(5, 1000, 400))

    assert zone.advance(parted(6, 1500, 450)) == Advance(True, energy_uj=500, span_ns=SECOND, idle_uj=50)
    assert zone.advance(parted(7, 1500, 450)) == Advance(True, energy_uj=0, span_ns=SECOND, idle_uj=0)


@pytest.mark.parametrize(
    "reading", [parted(6, 1500, 300), parted(6, 1500, 1000), parted(6, 900, 400)], ids=["fell", "outgrew", "whole fell"]
)
def test_parts_that_do_not_fit_are_a_reset(reading: ZoneReading) -> None:
    zone = track()
    zone.advance(parted(5, 1000, 400))

    assert zone.advance(reading) == Advance(False, span_ns=SECOND, gap=GapCause.RESET)
    assert zone.saved() == ZoneState(reading.time_ns, reading.counter_uj, idle_uj=reading.idle_uj, epoch="a")


def test_another_epoch_is_a_baseline_whatever_its_counters_say() -> None:
    domain = DomainTrack(p_max_uw=500 * WATT, hold_ns=3 * SECOND)
    domain.advance([("cpu", parted(5, 1000, 400))], 100 * SECOND)
    moved = domain.advance([("cpu", parted(900, 5000, 2000, "b"))], 130 * SECOND)
    later = domain.advance([("cpu", parted(910, 5600, 2100, "b"))], 140 * SECOND)

    assert moved == DomainStep(fresh=False, gaps=(Gap(GapCause.EPOCH, 30 * SECOND, "cpu"),))
    assert later == DomainStep(fresh=True, energy_uj=600, span_ns=10 * SECOND, idle_uj=100)


def test_an_epoch_is_known_again_after_a_restart() -> None:
    domain = DomainTrack(p_max_uw=500 * WATT, hold_ns=3 * SECOND)
    domain.advance([("cpu", parted(5, 1000, 400))], 100 * SECOND)
    state = domain.saved()
    assert state is not None

    again = DomainTrack(p_max_uw=500 * WATT, hold_ns=3 * SECOND)
    again.restore(state)

    assert again.advance([("cpu", parted(65, 7000, 500))], 160 * SECOND) == DomainStep(
        fresh=True, energy_uj=6000, span_ns=60 * SECOND, idle_uj=100
    )
