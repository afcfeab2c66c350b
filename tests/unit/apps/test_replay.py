"""Recorded hosts, from their files to the exposition. The energies are worked out by hand from each host's README.

Idle power is configured: 10 W per socket, 3 W per socket's memory, 20 W for the rest, over the 10 s between the two
moments. So 100 J of each socket and 30 J of its memory are idle; what is above is shared by CPU seconds.
`KWHERE_WRITE_GOLDEN=1 pytest tests/unit/apps/test_replay.py` writes tests/golden anew: look at the difference.
"""

import os
from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS

from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.collectors.registry import find_collectors
from kwhere.core.metrics import Sample
from kwhere.exposition.text import Format, Renderer

GOLDEN = Path(__file__).parents[2] / "golden"
MICROJOULES = 1_000_000
Key = tuple[str, str, str]
"""Unit (or `system`), component, part."""

WORKED: dict[str, dict[Key, int]] = {
    # cpu[0] 1800 - 100 = 1700 J over 41.55 busy s, cpu[1] 1200 - 100 = 1100 J all job 1002's; dram 170 J and 120 J
    "xeon-2s-dram": {
        ("1001", "cpu", "dynamic"): 1_636_582_431,  # 1700 x 40 / 41.55
        ("1002", "cpu", "dynamic"): 1_100_000_000,
        ("services", "cpu", "dynamic"): 42_960_289,  # sshd 0.05 and session-5 1.0
        ("system", "cpu", "dynamic"): 20_457_280,  # slurmd 0.1, nobody 0.4
        ("1001", "dram", "dynamic"): 163_658_243,
        ("1002", "dram", "dynamic"): 120_000_000,
        ("unallocated", "cpu", "idle"): 200_000_000,
    },
    # (900 - 100) + (700 - 100) = 1400 J over 24 s, nobody is pinned
    "epyc-2s": {
        ("d1" * 32, "cpu", "dynamic"): 875_000_000,  # 1400 x 15 / 24
        ("d2" * 32, "cpu", "dynamic"): 291_666_667,
        ("e3" * 32, "cpu", "dynamic"): 116_666_667,
        ("system", "cpu", "dynamic"): 116_666_667,  # docker 0.3, containerd 0.2, nobody 1.5
        ("unallocated", "cpu", "idle"): 200_000_000,
    },
    # 680 - 100 = 580 J over 7.8 s
    "epyc-zen2-mirror": {
        ("postgresql.service", "cpu", "dynamic"): 446_153_846,
        ("nginx.service", "cpu", "dynamic"): 111_538_462,
        ("system", "cpu", "dynamic"): 22_307_692,
        ("unallocated", "cpu", "idle"): 100_000_000,
    },
    # 2000 J over 20.2 s on socket 0, 1750 J over 8.2 s on socket 1
    "cascade-lake-ap": {
        ("42", "cpu", "dynamic"): 1_980_198_020,
        ("43", "cpu", "dynamic"): 1_707_317_073,
        ("system", "cpu", "dynamic"): 62_484_907,  # slurmd: 2000 x 0.2 / 20.2 and 1750 x 0.2 / 8.2
    },
    # 1100 - 100 = 1000 J over 36.8 s; dram 80 - 30 = 50 J; idle by allocation of 8 CPUs: 488 and 1999 milli-CPUs
    "k8s-v2-systemd": {
        ("1a2b3c4d-0000-4000-8000-00000000000b", "cpu", "dynamic"): 380_434_783,
        ("1a2b3c4d-0000-4000-8000-0000000000be", "cpu", "dynamic"): 54_347_826,
        ("1a2b3c4d-0000-4000-8000-00000000000f", "cpu", "dynamic"): 543_478_261,
        ("system", "cpu", "dynamic"): 21_739_130,
        ("1a2b3c4d-0000-4000-8000-00000000000b", "dram", "dynamic"): 19_021_739,
        ("1a2b3c4d-0000-4000-8000-00000000000b", "cpu", "idle"): 6_100_000,
        ("1a2b3c4d-0000-4000-8000-00000000000f", "cpu", "idle"): 24_987_500,
        ("1a2b3c4d-0000-4000-8000-0000000000be", "cpu", "idle"): 0,
    },
    # 1500 - 100 = 1400 J over 18.8 s; dram 120 - 30 = 90 J; 2 and 1 of 4 CPUs are held
    "libvirt-v2": {
        ("57f2d45e-8ddf-4338-91df-62d0044ff1b5", "cpu", "dynamic"): 1_191_489_362,
        ("b674a0a2-c300-4dc6-8c9c-65df16da6d69", "cpu", "dynamic"): 148_936_170,
        ("57f2d45e-8ddf-4338-91df-62d0044ff1b5", "dram", "dynamic"): 76_595_745,
        ("57f2d45e-8ddf-4338-91df-62d0044ff1b5", "cpu", "idle"): 50_000_000,
        ("b674a0a2-c300-4dc6-8c9c-65df16da6d69", "cpu", "idle"): 25_000_000,
        ("unallocated", "cpu", "idle"): 25_000_000,
    },
    # 650 - 100 = 550 J over 24.2 s; dram 60 - 30 = 30 J; cpusets of 2 and 1 of 4 CPUs
    "oar-v1": {
        ("1234", "cpu", "dynamic"): 409_090_909,
        ("1235", "cpu", "dynamic"): 136_363_636,
        ("1234", "dram", "dynamic"): 22_314_050,
        ("1234", "cpu", "idle"): 50_000_000,
        ("1235", "cpu", "idle"): 25_000_000,
    },
    # 500 - 100 = 400 J over 15.6 s; the job's time is in slurmd.service's cpu.stat once more and yet counts once
    "hybrid-slurm": {
        ("77", "cpu", "dynamic"): 384_615_385,
        ("77", "dram", "dynamic"): 9_615_385,
    },
    # GPUs idle at an eighth of their limit: 70 W of each package. Job 500 has both dies of the first and nobody the
    # second: 4600 - 700 and 950 - 700 J are dynamic
    "mi250x-slurm": {
        ("500", "gpu", "dynamic"): 3_900_000_000,
        ("500", "gpu", "idle"): 700_000_000,
        ("system", "gpu", "dynamic"): 250_000_000,
        ("unallocated", "gpu", "idle"): 700_000_000,
    },
    # 4000 - 937.5 J by partitions, 100 % of one and 50 % of another; each holds an eighth of the idle energy
    "mi300x-cpx": {
        ("500", "gpu", "dynamic"): 2_041_666_667,
        ("501", "gpu", "dynamic"): 1_020_833_333,
        ("500", "gpu", "idle"): 117_187_500,
        ("501", "gpu", "idle"): 117_187_500,
        ("unallocated", "gpu", "idle"): 703_125_000,
    },
    # the one process on both boards: 1900 + 550 J, of which 327 W and 190 W / 8 are idle
    "radeon-and-arc": {
        ("app-blender.scope", "gpu", "dynamic"): 1_803_750_000,
        ("app-blender.scope", "gpu", "idle"): 646_250_000,
    },
    # cpu 37.8 J is all idle (10 W x 10 s > 37.8 J), and so are dram 9 J and other 49.3 J
    "laptop-psys-mmio": {
        ("unallocated", "cpu", "idle"): 37_800_000,
        ("unallocated", "other", "idle"): 49_300_000,
    },
}

NODE: dict[str, dict[str, int]] = {
    "xeon-2s-dram": {"cpu": 3_000_000_000, "dram": 350_000_000},
    "epyc-2s": {"cpu": 1_600_000_000},
    "epyc-zen2-mirror": {"cpu": 680_000_000},
    "cascade-lake-ap": {"cpu": 3_950_000_000, "dram": 395_000_000},
    "k8s-v2-systemd": {"cpu": 1_100_000_000, "dram": 80_000_000},
    "libvirt-v2": {"cpu": 1_500_000_000, "dram": 120_000_000},
    "oar-v1": {"cpu": 650_000_000, "dram": 60_000_000},
    "hybrid-slurm": {"cpu": 500_000_000, "dram": 40_000_000},
    "laptop-psys-mmio": {"cpu": 37_800_000, "dram": 9_000_000, "other": 49_300_000},
    "sapphire-rapids-psys": {"cpu": 3_700_000_000, "dram": 300_000_000},  # its psys is not believed
    "grace-superchip": {"cpu": 3_900_000_000, "other": 1_100_000_000},
    "grace-hopper": {"cpu": 2_000_000_000, "other": 4_600_000_000},
    "cray-ex-4accel": {
        "cpu": 2_100_000_000,
        "dram": 500_000_000,
        "gpu": 8_200_000_000,
        "other": 2_200_000_000,
    },
    "arm-scmi": {"cpu": 3_000_000_000, "dram": 390_000_000, "other": 710_000_000},
    "acpi-server": {"cpu": 800_000_000, "dram": 70_000_000, "other": 1_130_000_000},
    "mi250x-slurm": {"cpu": 1_000_000_000, "gpu": 5_550_000_000},
    "mi300x-spx": {"cpu": 1_000_000_000, "gpu": 8_570_000_000},
    "mi300x-cpx": {"cpu": 1_000_000_000, "gpu": 4_000_000_000},
    "radeon-and-arc": {"cpu": 900_000_000, "gpu": 2_450_000_000},
    "intel-flex-max": {"cpu": 2_000_000_000, "gpu": 5_200_000_000},
    "laptop-igpu": {"cpu": 150_000_000},
}
UNMEASURED = ("vm-no-meter", "vm-garbage-counters", "xeon-perf-only", "container-no-sys", "laptop-battery")


def replay(name: str) -> list[Sample]:
    """Return what `kwhere agent --once` shows of units and energy."""
    host = HOSTS / name
    config = AgentConfig.model_validate(
        {
            "path": {"procfs": host / "proc", "sysfs": host / "sys", "cgroupfs": host / "cgroup"},
            "agent": {"idle_watts": {"cpu": 10, "dram": 3, "other": 20}},
            "units": {"libvirt_xml_dirs": [host / "libvirt"], "docker_dirs": [], "podman_dirs": []},
            "collector": {name: {"enabled": False} for name in OTHERS},
        }
    )
    samples = build_agent(config, None).once(1.0)
    return [sample for sample in samples if not sample.spec.name.startswith("kwhere_collector_")]


SHOWN = {"units", "energy"}
OTHERS = sorted(find_collectors().plugins.keys() - SHOWN)


def energies(samples: list[Sample]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for sample in samples:
        if not sample.spec.name.endswith("_energy_joules_total"):
            continue
        labels = dict(zip(sample.spec.labels, sample.labels, strict=True))
        who = labels.get("unit", sample.spec.name.split("_")[1])
        found[(who, labels["component"], labels.get("part", "all"))] = round(sample.value * MICROJOULES)
    return found


@pytest.mark.parametrize("name", WORKED)
def test_energies_are_those_worked_out_by_hand(name: str) -> None:
    found = energies(replay(name))

    wrong = {key: (found.get(key), hand) for key, hand in WORKED[name].items() if abs(found.get(key, -9) - hand) > 1}
    assert not wrong


@pytest.mark.parametrize("name", NODE)
def test_the_node_is_what_its_meters_say_and_its_shares_add_up(name: str) -> None:
    found = energies(replay(name))

    assert {component: uj for (who, component, _), uj in found.items() if who == "node"} == NODE[name]
    for component, node_uj in NODE[name].items():
        assert sum(uj for (who, c, _), uj in found.items() if c == component and who != "node") == node_uj


@pytest.mark.parametrize("name", [*NODE, *UNMEASURED])
def test_the_exposition_is_as_recorded(name: str) -> None:
    page = Renderer().render(replay(name), Format.TEXT).decode()
    file = GOLDEN / f"{name}.prom"
    if os.environ.get("KWHERE_WRITE_GOLDEN"):
        file.write_text(page)

    assert page == file.read_text()


def test_a_laptop_on_its_battery_draws_what_the_battery_gives() -> None:
    """163.5 J; processor and memory are modelled inside it, and none of the three is missing."""
    node = {component: uj for (who, component, _), uj in energies(replay("laptop-battery")).items() if who == "node"}

    assert node.keys() == {"cpu", "dram", "other"}
    assert sum(node.values()) == 163_500_000


@pytest.mark.parametrize("name", ["epyc-2s", "epyc-zen2-mirror"])
def test_case_energy_r12_a_domain_that_nothing_measures_has_no_series(name: str) -> None:
    assert not [key for key in energies(replay(name)) if key[1] in ("dram", "gpu", "other")]


def test_a_plain_tree_serves_both_moments_with_no_energy() -> None:
    host = HOSTS / "xeon-2s-dram"
    config = AgentConfig.model_validate(
        {"path": {"procfs": host / "proc" / "0", "sysfs": host / "sys" / "0", "cgroupfs": host / "cgroup" / "0"}}
    )

    samples = build_agent(config, None).once(1.0)

    assert set(energies(samples).values()) <= {0}
