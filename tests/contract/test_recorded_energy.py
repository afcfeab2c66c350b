"""What the READMEs of tests/fixtures/hosts promise, worked out there by hand: microjoules of ten seconds per domain."""

import pytest
from tests.recorded_hosts import open_host
from tests.unit.meters.perf_tree import PKG, RAM, FakeKernel

from kwhere.apps.gpus import open_gpus
from kwhere.core.errors import Unavailable
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.energy.zone import DomainTrack, ZoneReading
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import read_cpu_model
from kwhere.kernel.recorded import clock_of
from kwhere.kernel.topology import read_topology
from kwhere.meters import perf
from kwhere.meters.meter import Domain, Meter, MeterContext, Reading
from kwhere.meters.registry import build_meters
from kwhere.sampling.meter_bank import MeterBank

EXPECTED: dict[str, dict[str, int | None]] = {
    "xeon-2s-dram": {
        "cpu[0]": 1_800_000_000,
        "cpu[1]": 1_200_000_000,  # wraps
        "dram[0]": 200_000_000,
        "dram[1]": 150_000_000,
    },
    "epyc-2s": {"cpu[0]": 900_000_000, "cpu[1]": 700_000_000},  # cpu[1] wraps; core is inside
    "epyc-zen2-mirror": {"cpu[0]": 680_000_000},
    "cascade-lake-ap": {
        "cpu[0]": 2_100_000_000,
        "cpu[1]": 1_850_000_000,
        "dram[0]": 210_000_000,
        "dram[1]": 185_000_000,
    },
    "laptop-psys-mmio": {"cpu[0]": 37_800_000, "dram[0]": 9_000_000, "platform": 96_100_000},
    "k8s-v2-systemd": {"cpu[0]": 1_100_000_000, "dram[0]": 80_000_000},
    "libvirt-v2": {"cpu[0]": 1_500_000_000, "dram[0]": 120_000_000},
    "oar-v1": {"cpu[0]": 650_000_000, "dram[0]": 60_000_000},
    "hybrid-slurm": {"cpu[0]": 500_000_000, "dram[0]": 40_000_000},
    "vm-no-meter": {},
    "sapphire-rapids-psys": {
        "cpu[0]": 2_400_000_000,
        "cpu[1]": 1_300_000_000,
        "dram[0]": 180_000_000,
        "dram[1]": 120_000_000,
        "platform": 300_000_000,  # of two zones; the agent does not believe it
    },
    "grace-superchip": {"cpu[0]": 2_200_000_000, "cpu[1]": 1_700_000_000, "platform": 5_000_000_000},
    "grace-hopper": {"cpu[0]": 2_000_000_000, "platform": 6_600_000_000},
    "cray-ex-4accel": {
        "cpu[0]": 2_100_000_000,
        "dram[0]": 500_000_000,
        "gpu[accel0]": 2_000_000_000,
        "gpu[accel1]": 2_100_000_000,
        "gpu[accel2]": 1_900_000_000,
        "gpu[accel3]": 2_200_000_000,
        "platform": 13_000_000_000,
    },
    "xeon-perf-only": {},
    "arm-scmi": {
        "cpu[0]": 1_600_000_000,
        "cpu[1]": 1_400_000_000,
        "dram[0]": 210_000_000,
        "dram[1]": 180_000_000,
        "platform": 4_100_000_000,
    },
    "laptop-battery": {"platform": 163_500_000},
    "acpi-server": {"cpu[0]": 800_000_000, "dram[0]": 70_000_000, "platform": 2_000_000_000},
    "vm-garbage-counters": {"cpu[0]": None},
    "container-no-sys": {},
    "mi250x-slurm": {
        "cpu[0]": 1_000_000_000,
        "gpu[c0ffee0000000000]": 4_600_000_000,  # two dies, once
        "gpu[c0ffee0000000002]": 950_000_000,
    },
    "mi300x-spx": {
        "cpu[0]": 1_000_000_000,
        "gpu[f00d000000000001]": 7_170_000_000,
        "gpu[f00d000000000002]": 1_400_000_000,
    },
    "mi300x-cpx": {"cpu[0]": 1_000_000_000, "gpu[f00d000000000001]": 4_000_000_000},
    "radeon-and-arc": {
        "cpu[0]": 900_000_000,
        "gpu[2d0e000000000007]": 1_900_000_000,
        "gpu[intel-0000:03:00.0]": 550_000_000,  # through the end of 32 bits
    },
    "intel-flex-max": {
        "cpu[0]": 2_000_000_000,
        "gpu[intel-0000:4d:00.0]": 1_200_000_000,
        "gpu[intel-0000:9a:00.0]": 4_000_000_000,
    },
    "laptop-igpu": {"cpu[0]": 150_000_000},
}
CASES = {"mi250x-slurm": "case_gpu_18", "radeon-and-arc": "case_gpu_21", "laptop-igpu": "case_gpu_87"}
GAPS = {"vm-garbage-counters": 1}


def measuring_meters(fs: HostFS) -> list[Meter]:
    model = read_cpu_model(fs)
    sockets = {cpu.number: cpu.socket for cpu in read_topology(fs).cpus}
    gpus = open_gpus(GpuSettings(), fs)
    context = MeterContext(fs, sockets, model.vendor, model.name, None, dict, gpus=gpus)
    return [meter for meter in build_meters(context).meters if meter.source != "model"]


def readings_of(meter: Meter, now_ns: int) -> list[Reading]:
    try:
        return list(meter.read(now_ns))
    except Unavailable as error:
        if error.reason != "unsupported":  # graphics inside a processor: there, without a meter
            raise
        return []


def by_domain(readings: list[Reading]) -> dict[Domain, list[tuple[str, ZoneReading]]]:
    found: dict[Domain, list[tuple[str, ZoneReading]]] = {}
    for reading in readings:
        zone = ZoneReading(
            time_ns=reading.time_ns,
            counter_uj=reading.counter_uj,
            power_uw=reading.power_uw,
            range_uj=reading.range_uj,
            p_max_uw=reading.p_max_uw,
            device_time=reading.device_time,
        )
        found.setdefault(reading.domain, []).append((reading.zone, zone))
    return found


@pytest.mark.parametrize(
    ("host", "expected"), EXPECTED.items(), ids=[f"{host}-{CASES.get(host, 'recorded')}" for host in EXPECTED]
)
def test_the_energy_of_a_recorded_host_is_what_its_readme_says(host: str, expected: dict[str, int | None]) -> None:
    fs = open_host(host)
    clock = clock_of(fs)
    meters = measuring_meters(fs)
    tracks: dict[tuple[str, Domain], DomainTrack] = {}
    found: dict[str, int | None] = {}
    gaps = 0

    for moment in (0, 1):
        fs.select_snapshot(moment)
        now_ns = clock.boottime_ns()
        for meter in meters:
            for domain, zones in by_domain(readings_of(meter, now_ns)).items():
                track = tracks.setdefault(
                    (meter.source, domain), DomainTrack(p_max_uw=meter.p_max_uw(domain), hold_ns=30_000_000_000)
                )
                step = track.advance(zones, now_ns)
                if moment:
                    gaps += len(step.gaps)
                    found[str(domain)] = step.energy_uj

    assert found == expected
    assert gaps == GAPS.get(host, 0)


def test_a_xeon_that_only_perf_may_read_gives_the_energy_of_its_events() -> None:
    """xeon-perf-only with its events faked: 1800 and 1200 J of the sockets, 150 and 90 J of their memory."""
    kernel = FakeKernel()
    fs = open_host("xeon-perf-only")
    sockets = {cpu.number: cpu.socket for cpu in read_topology(fs).cpus}
    meter = perf.build(MeterContext(fs, sockets, "GenuineIntel", None, None, dict), kernel.open)
    bank = MeterBank([meter], {}, 10_000_000_000)
    for moment, joules in enumerate([(5, 7, 1, 2), (1805, 1207, 151, 92)]):
        for (config, cpu), value in zip([(PKG, 0), (PKG, 1), (RAM, 0), (RAM, 1)], joules, strict=True):
            kernel.joules(config, cpu, value)
        bank.read(moment * 10_000_000_000, suspended=False)
    kernel.close()

    assert {str(domain): energy_uj // 1_000_000 for (_, domain), energy_uj in bank.totals_uj.items()} == {
        "cpu[0]": 1800,
        "cpu[1]": 1200,
        "dram[0]": 150,
        "dram[1]": 90,
    }
