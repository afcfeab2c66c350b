"""What the READMEs of tests/fixtures/hosts promise, worked out there by hand: microjoules of ten seconds per domain."""

import pytest
from tests.recorded_hosts import open_host

from kwhere.energy.zone import DomainTrack, ZoneReading
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import read_cpu_model
from kwhere.kernel.recorded import clock_of
from kwhere.kernel.topology import read_topology
from kwhere.meters.meter import Domain, Meter, MeterContext, Reading
from kwhere.meters.registry import build_meters

EXPECTED = {
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
}


def measuring_meters(fs: HostFS) -> list[Meter]:
    model = read_cpu_model(fs)
    sockets = {cpu.number: cpu.socket for cpu in read_topology(fs).cpus}
    context = MeterContext(fs, sockets, model.vendor, model.name, None, dict)
    return [meter for meter in build_meters(context).meters if meter.source != "model"]


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


@pytest.mark.parametrize(("host", "expected"), EXPECTED.items())
def test_the_energy_of_a_recorded_host_is_what_its_readme_says(host: str, expected: dict[str, int]) -> None:
    fs = open_host(host)
    clock = clock_of(fs)
    meters = measuring_meters(fs)
    tracks: dict[tuple[str, Domain], DomainTrack] = {}
    found: dict[str, int | None] = {}

    for moment in (0, 1):
        fs.select_snapshot(moment)
        now_ns = clock.boottime_ns()
        for meter in meters:
            for domain, zones in by_domain(list(meter.read(now_ns))).items():
                track = tracks.setdefault(
                    (meter.source, domain), DomainTrack(p_max_uw=meter.p_max_uw(domain), hold_ns=30_000_000_000)
                )
                step = track.advance(zones, now_ns)
                if moment:
                    assert not step.gaps
                    found[str(domain)] = step.energy_uj

    assert found == expected
