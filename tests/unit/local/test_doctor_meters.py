"""Every energy source on every host tree, every reason that a source knows, and what a live one says."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doctor_place import found, made, place_of, recorded, with_sources
from tests.fixtures.hosts.build import HOSTS
from tests.sampling_world import HandMeter

import kwhere
from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_answers import MeterAnswer, ask_meters
from kwhere.local.doctor_energy import CHECKS
from kwhere.local.doctor_hints import hints
from kwhere.local.doctor_meter_reasons import ADVICE, ANY, advice_for
from kwhere.local.doctor_text import report
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.meter import PLATFORM, Domain, Meter, Reading
from kwhere.meters.registry import Meters, SourceStatus, plugins

ALL_HOSTS = sorted(path.name for path in HOSTS.iterdir() if (path / "proc").is_dir())
SOURCES = sorted(plugin.source for plugin in plugins())
CPU0 = Domain(DomainKind.CPU, "0")
SECOND = 1_000_000_000
TABLE = [
    ("xeon-2s-dram", "powercap", CheckState.OK, "cpu of 2 sockets, dram of 2 sockets"),
    ("xeon-2s-dram", "psys", CheckState.MISSING, "not here"),
    ("xeon-2s-dram", "redfish", CheckState.MISSING, "not set up"),
    ("xeon-2s-dram", "http_json", CheckState.MISSING, "not set up"),
    ("xeon-2s-dram", "hypervisor", CheckState.MISSING, "not a virtual machine"),
    ("xeon-2s-dram", "battery", CheckState.MISSING, "no battery"),
    ("xeon-2s-dram", "cray", CheckState.MISSING, "not here"),
    ("cascade-lake-ap", "powercap", CheckState.OK, "cpu of 2 sockets, dram of 2 sockets"),
    ("epyc-2s", "powercap", CheckState.OK, "cpu of 2 sockets"),
    ("epyc-zen2-mirror", "powercap", CheckState.OK, "cpu of 1 socket"),
    ("laptop-psys-mmio", "psys", CheckState.OK, "the whole node"),
    ("laptop-psys-mmio", "powercap", CheckState.OK, "cpu of 1 socket, dram of 1 socket"),
    ("vm-no-meter", "powercap", CheckState.MISSING, "not here, as in most virtual machines and containers"),
    ("vm-no-meter", "hypervisor", CheckState.MISSING, "not set up"),
    ("vm-no-meter", "model", CheckState.OK, "cpu of 1 socket, dram of 1 socket"),
]


@pytest.mark.parametrize(("host", "source", "state", "says"), TABLE, ids=[f"{row[0]}-{row[1]}" for row in TABLE])
def test_a_source_on_its_host(host: str, source: str, state: CheckState, says: str) -> None:
    check = found(CHECKS, recorded(host))[f"meter_{source}"]

    assert (check.state, check.found) == (state, says)


@pytest.mark.parametrize("host", ALL_HOSTS)
def test_every_source_has_its_line_on_every_host(host: str) -> None:
    checks = found(CHECKS, recorded(host))

    assert [f"meter_{source}" for source in SOURCES] == sorted(n for n in checks if n.startswith("meter_"))
    for source in SOURCES:
        check = checks[f"meter_{source}"]
        assert "cannot be used" not in check.found, f"{host} {source}: {check}"
        assert check.state is not CheckState.FAILED or check.why
    assert all(len(line) <= 80 for line in report(list(checks.values()), 80) if "sudo" not in line and "/" not in line)


def _literal_reasons() -> list[tuple[str, str]]:
    """Every reason that the text of a meter's module raises by name; `*` for what is shared."""
    package = Path(kwhere.__file__).parent
    sources = set(SOURCES) | {"redfish", "http_json", "hypervisor", "ipmi_dcmi", "perf"}
    pairs = set()
    for path in sorted([*(package / "meters").glob("*.py"), *(package / "devices").glob("*.py")]):
        owner = next((s for s in sorted(sources, key=len, reverse=True) if path.stem.startswith(s)), None)
        owner = owner or ("ipmi_dcmi" if path.stem.startswith(("dcmi", "openipmi")) else None)
        for reason in re.findall(r'Unavailable\(\s*"([a-z_]+)"', path.read_text()):
            if owner is not None:
                pairs.add((owner, reason))
    return sorted(pairs)


def test_every_reason_that_a_meter_raises_has_its_words() -> None:
    known_elsewhere = {"absent", "permission"}  # told by what the machine is

    unknown = [
        (source, reason)
        for source, reason in _literal_reasons()
        if (source, reason) not in ADVICE and (ANY, reason) not in ADVICE and reason not in known_elsewhere
    ]

    assert unknown == []


@pytest.mark.parametrize(("source", "reason"), [key for key in ADVICE if key[0] != ANY])
def test_every_row_of_the_table_gives_a_line(source: str, reason: str) -> None:
    status = SourceStatus(source, up=False, reason=reason, detail="somewhere: expected a power, found none")

    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(status)))[f"meter_{source}"]

    assert check.state is not CheckState.OK
    assert check.found
    assert all(remedy.command for remedy in check.remedies)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_reason_of_any_source_gives_a_line(source: str, reason: str) -> None:
    advice = advice_for(source, reason)

    assert advice.found
    assert advice.state is not CheckState.OK


def test_a_reason_without_a_row_is_told_with_what_the_source_said() -> None:
    status = SourceStatus("redfish", up=False, reason="haunted", detail="https://bmc: a ghost")

    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(status)))["meter_redfish"]

    assert check.state is CheckState.FAILED
    assert check.found == "cannot be used: haunted"
    assert "https://bmc: a ghost" in check.why


REMEDIES = [
    ("ipmi_dcmi", "no_driver", "", "sudo modprobe -a ipmi_si ipmi_devintf"),
    ("ipmi_dcmi", "permission", "", "sudo chown alice /dev/ipmi0"),
    ("ipmi_dcmi", "no_program", "m: expected the program ipmitool, found none", "sudo apt-get install ipmitool"),
    ("ipmi_dcmi", "no_program", "m: expected the program ipmi-dcmi, none", "sudo apt-get install freeipmi-tools"),
    ("perf", "permission", "", "sudo systemd-run --unit=kwhere --property=User=alice"),
    ("hwmon_power", "permission", "", "sudo chown alice"),
    ("hwmon_energy", "permission", "", "sudo chown alice"),
]


@pytest.mark.parametrize(("source", "reason", "detail", "command"), REMEDIES)
def test_what_a_command_opens_has_undo_and_risk(source: str, reason: str, detail: str, command: str) -> None:
    status = SourceStatus(source, up=False, reason=reason, detail=detail)

    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(status)))[f"meter_{source}"]

    assert check.remedies[0].command.startswith(command)
    assert check.remedies[0].undo
    if reason == "permission":
        assert all(remedy.risk or "one question" in remedy.title for remedy in check.remedies)
    if "chown" in command and source != "ipmi_dcmi":
        assert "CVE-2020-8694" in (check.remedies[0].risk or "")


def test_perf_is_no_second_hint_where_powercap_is_closed_too() -> None:
    powercap, perf = (SourceStatus(source, up=False, reason="permission") for source in ("powercap", "perf"))

    checks = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(powercap, perf)))

    assert [hint.title for hint in hints(checks.values())] == ["CPU energy is estimated: RAPL is readable by root only"]
    assert checks["meter_perf"].remedies


def test_the_kernels_setting_is_put_back_to_what_it_was(tmp_path: Path) -> None:
    fs = made(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "3\n", "proc/cpuinfo": "processor : 0\n"})
    status = SourceStatus("perf", up=False, reason="permission")

    check = found(CHECKS, place_of(fs, meters=with_sources(status)))["meter_perf"]

    assert check.remedies[1].undo == "sudo sysctl -w kernel.perf_event_paranoid=3"
    assert "CVE-2020-8694" in (check.remedies[1].risk or "")


def _meters(*meters: HandMeter, platforms: Sequence[HandMeter] = ()) -> Meters:
    sources = tuple(SourceStatus(meter.source, up=True) for meter in meters)
    by_component: dict[Component, Meter] = {}
    for meter in meters:
        if any(domain.kind is DomainKind.CPU for domain in meter.domains):
            by_component.setdefault(Component.CPU, meter)
    return Meters(tuple(meters), sources, by_component, tuple(platforms))


def test_who_speaks_for_the_node_and_why_the_others_do_not() -> None:
    powercap = HandMeter(counters={CPU0: 0})
    bmc, psys = HandMeter("redfish", powers={PLATFORM: 1}), HandMeter("psys", counters={PLATFORM: 0})
    place = recorded("xeon-2s-dram", meters=lambda: _meters(powercap, bmc, psys, platforms=[bmc, psys]))

    checks = found(CHECKS, place)

    assert checks["meter_powercap"].why == "Speaks for cpu."
    assert checks["meter_redfish"].why == "Speaks for the whole node, first in the order redfish, psys."
    assert checks["meter_psys"].why == "Whole node exported for comparison: redfish comes first."


def test_a_live_meter_says_its_watts() -> None:
    bmc = HandMeter("redfish", powers={PLATFORM: 345_000_000})
    answers = {"redfish": MeterAnswer({DomainKind.PLATFORM: 345.0})}
    told = {"meters": lambda: _meters(bmc, platforms=[bmc]), "answers": lambda: answers}

    assert found(CHECKS, place_of(HostFS(), **told))["meter_redfish"].found == "the whole node: 345 W now"
    assert found(CHECKS, recorded("xeon-2s-dram", **told))["meter_redfish"].found == "the whole node: 345 W"


class HandClock:
    """Time passes when somebody sleeps, and with it a counter grows."""

    def __init__(self, counter: HandMeter | None = None, watts: int = 0) -> None:
        self.now_ns = 0
        self._counter, self._watts = counter, watts

    def read(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        if self._counter is not None:
            self._counter.add(CPU0, int(seconds * self._watts * 1_000_000))


def test_power_is_told_at_once_and_of_a_counter_after_half_a_second() -> None:
    powercap = HandMeter(counters={CPU0: 5}, range_uj=None)
    hwmon = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 230_000_000})
    clock = HandClock(powercap, 80)

    answers = ask_meters([powercap, hwmon], clock.read, clock.sleep)

    assert answers["powercap"].watts[DomainKind.CPU] == pytest.approx(80.0)
    assert answers["hwmon_power"].watts == {DomainKind.PLATFORM: 230.0}
    assert 0.5 <= clock.now_ns / SECOND < 0.6


def test_one_that_fails_is_told_and_takes_no_other_down() -> None:
    broken = HandMeter("hwmon_power", powers={PLATFORM: 1}, broken="unsupported")
    silent = HandMeter("cray", powers={PLATFORM: 1}, pending=True)
    good = HandMeter("scmi", Method.INTEGRATED, powers={PLATFORM: 7_000_000})
    clock = HandClock()

    answers = ask_meters([broken, silent, good], clock.read, clock.sleep)

    assert answers["hwmon_power"].failure is not None
    assert answers["hwmon_power"].failure.reason == "unsupported"
    assert answers["cray"].failure is not None
    assert answers["cray"].failure.reason == "timeout"
    assert answers["scmi"].watts == {DomainKind.PLATFORM: 7.0}
    assert clock.now_ns / SECOND < 3


class Bmc(BlockingSource):
    """Says what it is told to."""

    def __init__(self, said: Unavailable | int) -> None:
        self._said = said

    def ask(self) -> Sequence[Reading]:
        if isinstance(self._said, Unavailable):
            raise self._said
        return [Reading(PLATFORM, "psu", 0, power_uw=self._said)]


def test_a_slow_source_is_waited_for() -> None:
    facts = SlowFacts("redfish", (PLATFORM,), frozenset(Component), 10.0, 5.0, 1)
    other = SlowFacts("ipmi_dcmi", (PLATFORM,), frozenset(Component), 10.0, 5.0, 1)
    meters = [
        BackgroundMeter(facts, Bmc(345_000_000), lambda: 0),
        BackgroundMeter(other, Bmc(Unavailable("inactive", "bmc: not active")), lambda: 0),
    ]

    answers = ask_meters(meters)
    for meter in meters:
        meter.close()

    assert answers["redfish"].watts == {DomainKind.PLATFORM: 345.0}
    assert answers["ipmi_dcmi"].failure is not None
    assert answers["ipmi_dcmi"].failure.reason == "inactive"


def test_the_model_is_not_asked() -> None:
    assert ask_meters([HandMeter("model", Method.MODELLED, counters={CPU0: 0})]) == {}
