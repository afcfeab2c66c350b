"""The unit `power` as the kernel describes it, exactly; any other text is an error of the source."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.meters.perf_tree import JOULE, SCALE, FakeKernel, write_unit
from tests.unit.meters.powercap_tree import FaultyFS

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.perf_power import PowerCounter, PowerEvent, find_power_unit, parse_config, parse_scale


def test_the_unit_of_two_sockets(tmp_path: Path) -> None:
    write_unit(tmp_path, "0,36", "energy-pkg", "energy-ram", "energy-cores", "energy-gpu")

    unit = find_power_unit(FaultyFS(tmp_path))

    assert (unit.kind, unit.cpus) == (23, (0, 36))
    assert {name: event.config for name, event in unit.events.items()} == {"energy-pkg": 2, "energy-ram": 3}
    assert unit.events["energy-pkg"].joules_per_count == Fraction(1, JOULE)


def test_a_machine_without_the_unit(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_power_unit(FaultyFS(tmp_path))

    assert caught.value.reason == "absent"


def test_a_unit_of_cores_alone_has_nothing_for_us(tmp_path: Path) -> None:  # as AMD's power_core
    write_unit(tmp_path, "0", "energy-cores")

    with pytest.raises(Unavailable, match="expected energy-pkg, found none"):
        find_power_unit(FaultyFS(tmp_path))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("type", "power"),
        ("cpumask", ""),
        ("cpumask", "a-b"),
        ("events/energy-pkg", "event=pkg"),
        ("events/energy-pkg", "event=0x1ff"),
        ("events/energy-pkg", "umask=0x1"),
        ("events/energy-pkg.scale", "nan"),
        ("events/energy-pkg.scale", "0"),
        ("events/energy-pkg.scale", "1e999999999"),
        ("events/energy-pkg.unit", "mJ"),
        ("format/event", "config1:0-7"),
    ],
)
def test_nonsense_in_a_file_names_it(tmp_path: Path, file: str, text: str) -> None:
    (write_unit(tmp_path, "0", "energy-pkg") / file).write_text(text)

    with pytest.raises(SourceError, match=r"power/(events/energy-pkg|type|cpumask)"):
        find_power_unit(FaultyFS(tmp_path))


def test_counts_become_microjoules_without_drift() -> None:
    event = PowerEvent("energy-pkg", 2, Fraction(SCALE))

    assert event.microjoules(JOULE) == 1_000_000
    assert event.microjoules(JOULE // 1_000_000) == 0  # 4294 counts are 0.9998 uJ
    assert event.microjoules((1 << 64) - 1) == 4_294_967_295_999_999


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50))
def test_the_sum_of_all_deltas_is_the_whole(counts: list[int]) -> None:
    event, total, energy_uj, deltas = PowerEvent("energy-pkg", 2, Fraction(SCALE)), 0, 0, 0
    for count in counts:
        total += count
        deltas += event.microjoules(total) - energy_uj
        energy_uj = event.microjoules(total)

    assert deltas == total * 1_000_000 // JOULE


def test_a_counter_reads_and_closes(tmp_path: Path) -> None:
    write_unit(tmp_path, "0", "energy-pkg")
    unit = find_power_unit(FaultyFS(tmp_path))
    kernel = FakeKernel()
    counter = PowerCounter(unit, unit.events["energy-pkg"], 0, kernel.open)
    kernel.joules(2, 0, 7)

    assert counter.read_microjoules() == 7_000_000
    counter.close()
    counter.close()
    with pytest.raises(Unavailable, match="closed"):
        counter.read_microjoules()
    assert kernel.opened == [(23, 2, 0)]
    kernel.close()


@pytest.mark.parametrize(
    ("text", "formats", "config"),
    [
        ("event=0x02", {"event": "config:0-7"}, 2),
        ("event=0x3c,umask=0x1", {"event": "config:0-7", "umask": "config:8-15"}, 0x13C),
        ("event=2,any", {"event": "config:0-7", "any": "config:21"}, 2 | 1 << 21),
    ],
)
def test_terms_go_where_their_format_says(text: str, formats: dict[str, str], config: int) -> None:
    assert parse_config(text, lambda term: formats.get(term, ""), "here") == config


@given(st.text(), st.text())
def test_any_text_of_an_event_is_a_number_or_an_error(text: str, bits: str) -> None:
    try:
        config = parse_config(text, lambda _: bits, "here")
    except SourceError:
        return
    assert 0 <= config < 1 << 64


@given(st.text() | st.from_regex(r"[0-9.eE+-]{0,20}", fullmatch=True))
def test_any_text_of_a_scale_is_a_fraction_or_an_error(text: str) -> None:
    try:
        scale = parse_scale(text, "here")
    except SourceError:
        return
    assert scale > 0
