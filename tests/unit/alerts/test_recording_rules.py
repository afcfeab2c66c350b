"""The recording rules over series of every exporter, by promtool's engine; every figure by hand."""

import re
from pathlib import Path

import pytest
from tests.unit.alerts.rule_world import RuleWorld, at, dcgm, own, unit_on

from kwhere.alerts.gpu_exporters import AMD, DCGM, EXPORTERS, KWHERE, NAMES, QUANTITIES, Named, Scope
from kwhere.alerts.promql_parts import RuleOptions
from kwhere.alerts.rule_file import all_rules

pytestmark = pytest.mark.service("promtool")
A, B, C, D = (f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcd")
MEBI = 2**20


@pytest.fixture
def world(tmp_path: Path) -> RuleWorld:
    return RuleWorld(tmp_path)


def test_every_exporters_names_become_one_series_per_gpu_case_users_61(world: RuleWorld) -> None:
    world.gauge("kwhere_gpu_power_watts", 300, **own(A))
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 310, **dcgm(A))  # the same GPU, by the agent's dcgm-exporter face
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 200, **dcgm(B, "n2"))
    world.gauge("nvidia_smi_power_draw_watts", 150, cluster="c", uuid=C.removeprefix("GPU-"), instance="n3:9835")
    world.gauge("nvidia_gpu_power_usage_milliwatts", 75_000, cluster="c", uuid=D, instance="n4:9445", minor_number="0")

    world.expect(
        "gpu:power_watts",
        (at(A, "kwhere"), 300),
        (at(B, "dcgm", "n2"), 200),
        (at(C, "nvidia_smi", "n3"), 150),
        (at(D, "nvidia_gpu", "n4"), 75),
    )
    world.expect(
        "node:gpu_power_watts",
        *(
            ({"cluster": "c", "node": node}, watts)
            for node, watts in (("n1", 300), ("n2", 200), ("n3", 150), ("n4", 75))
        ),
    )
    world.check()


def test_units_of_exporters_become_base_units_case_users_61(world: RuleWorld) -> None:
    world.gauge("DCGM_FI_DEV_FB_USED", 1024, **dcgm(B))
    world.gauge("DCGM_FI_DEV_GPU_UTIL", 50, **dcgm(B))
    world.gauge("DCGM_FI_DEV_SM_CLOCK", 1410, **dcgm(B))
    world.gauge("nvidia_smi_memory_used_bytes", 4_000_000_000, cluster="c", uuid=C[4:], instance="n3:9835")
    world.gauge("nvidia_smi_utilization_gpu_ratio", 0.25, cluster="c", uuid=C[4:], instance="n3:9835")
    world.gauge("nvidia_smi_clocks_current_sm_clock_hz", 1.2e9, cluster="c", uuid=C[4:], instance="n3:9835")

    world.expect("gpu:memory_used_bytes", (at(B, "dcgm"), 1024 * MEBI), (at(C, "nvidia_smi", "n3"), 4e9))
    world.expect("gpu:kernel_active_ratio", (at(B, "dcgm"), 0.5), (at(C, "nvidia_smi", "n3"), 0.25))
    world.expect("gpu:sm_clock_hertz", (at(B, "dcgm"), 1.41e9), (at(C, "nvidia_smi", "n3"), 1.2e9))
    world.check()


def test_utilisation_says_which_field_it_is_case_users_60(world: RuleWorld) -> None:
    world.gauge("DCGM_FI_DEV_GPU_UTIL", 100, **dcgm(A))
    world.gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.6, **dcgm(A))
    world.gauge("DCGM_FI_PROF_SM_ACTIVE", 0.3, **dcgm(A))
    world.gauge("DCGM_FI_DEV_GPU_UTIL", 80, **dcgm(B))

    world.expect(
        "gpu:utilization_ratio",
        (at(A, "dcgm", field="engine_active"), 0.6),
        (at(B, "dcgm", field="kernel_active"), 0.8),
    )
    world.expect("gpu:sm_active_ratio", (at(A, "dcgm"), 0.3))
    world.check()


DCGM_NAMES = (
    ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("dcgm_power_usage", "dcgm_gpu_utilization", "dcgm_fi_prof_gr_engine_active"),
)


def test_old_and_new_names_of_dcgm_are_the_same_case_ceems_397(world: RuleWorld) -> None:
    """`GPU_UTIL_RATIO` is in percent all the same."""
    uuids = (A, B, C, D)
    for uuid, (power, utilisation, activity) in zip(uuids, DCGM_NAMES, strict=True):
        world.gauge(power, 250, **dcgm(uuid))
        world.gauge(utilisation, 40, **dcgm(uuid))
        world.gauge(activity, 0.3, **dcgm(uuid))

    for recorded, value in (("power_watts", 250), ("kernel_active_ratio", 0.4), ("engine_active_ratio", 0.3)):
        world.expect(f"gpu:{recorded}", *((at(uuid, "dcgm"), value) for uuid in uuids))
    world.check()


def test_without_a_field_of_power_its_energy_tells_it_case_ceems_496(world: RuleWorld) -> None:
    world.counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 180_000, **dcgm(A))  # mJ: 180 W

    world.expect("gpu:power_watts", (at(A, "dcgm"), 180))
    world.check()


def test_words_for_not_known_are_no_values(world: RuleWorld) -> None:
    uuids = (A, B, C, D)
    for uuid, blank in zip(uuids, (2147483632, 2147483635, 9223372036854775794, 140737488355330.0), strict=True):
        for field in ("POWER_USAGE", "GPU_UTIL", "GPU_TEMP", "FB_USED"):
            world.gauge(f"DCGM_FI_DEV_{field}", blank, **dcgm(uuid))
        world.gauge("DCGM_FI_DEV_POWER_USAGE_INSTANT", 99, **dcgm(uuid))

    world.expect("gpu:power_watts", *((at(uuid, "dcgm"), 99) for uuid in uuids))
    for recorded in ("kernel_active_ratio", "temperature_celsius", "memory_used_bytes"):
        world.expect(f"gpu:{recorded}")
    world.check()


def test_the_new_spelling_of_hostname_is_the_same_node(world: RuleWorld) -> None:
    labels = dcgm(A)
    labels["hostname"] = labels.pop("Hostname")
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 100, **labels)
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 100, **{**dcgm(B, "pod-xyz"), "node": "n2"})  # relabelled by the site

    world.expect("gpu:power_watts", (at(A, "dcgm"), 100), (at(B, "dcgm", "n2"), 100))
    world.check()


def test_amds_exporter_speaks_where_the_agent_does_not(world: RuleWorld) -> None:
    theirs = {"cluster": "c", "gpu_uuid": "72ff740f-0000-1000-804c-3b58bf67050e", "gpu_id": "0"}
    world.gauge("kwhere_gpu_info", 1, **own("724c3b58bf67050e", "n1", vendor="amd", model="MI300X"))
    world.gauge("kwhere_gpu_power_watts", 500, **own("724c3b58bf67050e"))
    for partition, watts in (("0", 510), ("1", 0)):
        world.gauge("gpu_package_power", watts, **theirs, hostname="n1", gpu_partition_id=partition)
        world.gauge("amd_gpu_package_power", watts + 10, **theirs, hostname="n2", gpu_partition_id=partition)

    world.expect("gpu:power_watts", (at("724c3b58bf67050e", "kwhere"), 500), (at(theirs["gpu_uuid"], "amd", "n2"), 520))
    world.check()


def test_names_that_a_site_gives_are_read_case_ceems_523(world: RuleWorld) -> None:
    world.options = RuleOptions(given=(("power_watts", Named("rack_gpu:draw_kilowatts", 1000.0)),))
    world.gauge("rack_gpu:draw_kilowatts", 0.4, cluster="c", node="n9", uuid=A)
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 300, **dcgm(A, "n9"))

    world.expect("gpu:power_watts", (at(A, "given", "n9"), 400))
    world.check()


def test_a_sites_own_labels_of_cluster_and_node_are_kept(world: RuleWorld) -> None:
    world.options = RuleOptions(cluster_label="site", node_label="host")
    world.gauge("kwhere_gpu_power_watts", 300, site="s", host="n1", uuid=A, gpu="0")
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 200, site="s", UUID=B, gpu="0", Hostname="n2")

    world.expect(
        "gpu:power_watts",
        ({"site": "s", "host": "n1", "source": "kwhere", "uuid": A}, 300),
        ({"site": "s", "host": "n2", "source": "dcgm", "uuid": B}, 200),
    )
    world.check()


@pytest.mark.parametrize("chosen", [(KWHERE,), (DCGM,), (AMD,), tuple(EXPORTERS)])
def test_rules_of_some_exporters_alone_are_right_too(world: RuleWorld, chosen: tuple[str, ...]) -> None:
    world.options = RuleOptions(exporters=chosen, window="2m", interval="15s")
    world.gauge("kwhere_gpu_power_watts", 300, **own(A))
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 200, **dcgm(B))

    expected = [(at(A, "kwhere"), 300.0)] * (KWHERE in chosen) + [(at(B, "dcgm"), 200.0)] * (DCGM in chosen)
    world.expect("gpu:power_watts", *expected)
    world.check()


def test_units_nodes_and_what_they_draw(world: RuleWorld) -> None:
    unit = {"cluster": "c", "manager": "slurm", "unit": "42", "component": "cpu"}
    for node, watts in (("n1", 120.0), ("n2", 80.0)):
        for part, share in (("dynamic", 0.75), ("idle", 0.25)):
            labels = {**unit, "node": node, "run": node, "part": part}
            world.counter("kwhere_unit_energy_joules_total", watts * share, **labels)
        world.counter("kwhere_unit_cpu_seconds_total", 3.5, **{**unit, "node": node, "run": node, "mode": "user"})
        world.counter("kwhere_node_energy_joules_total", 2 * watts, cluster="c", node=node, component="cpu")

    whole = {"cluster": "c", "manager": "slurm", "unit": "42"}
    world.expect("unit:power_watts", (whole, 200))
    world.expect("unit:cpu_cores", (whole, 7))
    world.expect("node:power_watts", ({"cluster": "c", "node": "n1"}, 240), ({"cluster": "c", "node": "n2"}, 160))
    world.expect("unit:gpu_power_watts")
    world.check()


def test_an_agent_that_two_jobs_scrape_counts_once(world: RuleWorld) -> None:
    world.gauge("kwhere_gpu_power_watts", 300, **own(A))
    world.gauge("kwhere_gpu_power_watts", 300, **own(A), job="again")
    for more in ({}, {"job": "again"}):
        place = {"cluster": "c", "node": "n1", **more}
        unit = {**place, "manager": "slurm", "unit": "42", "run": "1"}
        world.counter("kwhere_unit_energy_joules_total", 120, **unit, component="cpu", part="dynamic")
        world.counter("kwhere_unit_cpu_seconds_total", 2, **unit, mode="user")
        world.counter("kwhere_node_energy_joules_total", 200, **place, component="cpu")
        world.gauge("kwhere_unit_gpu_share_ratio", 0.5, **unit, uuid=A, gpu="0")
        world.counter("kwhere_unit_gpu_busy_seconds_total", 0.25, **unit, uuid=A, gpu="0")

    whole = {"cluster": "c", "manager": "slurm", "unit": "42"}
    figures = {"power_watts": 120, "cpu_cores": 2, "gpus": 0.5, "gpu_power_watts": 150, "gpu_busy_ratio": 0.5}
    for recorded, value in figures.items():
        world.expect(f"unit:{recorded}", (whole, value))
    world.expect("node:power_watts", ({"cluster": "c", "node": "n1"}, 200))
    world.check()


def test_a_unit_that_holds_idle_gpus_is_told_case_ceems_65(world: RuleWorld) -> None:
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 60, **dcgm(A))
    world.gauge("DCGM_FI_DEV_GPU_UTIL", 0, **dcgm(A))
    world.gauge("kwhere_unit_gpu_share_ratio", 1, **unit_on(A, "7"))
    world.counter("kwhere_unit_gpu_busy_seconds_total", 0, **unit_on(A, "7"))

    whole = {"cluster": "c", "manager": "slurm", "unit": "7"}
    for recorded, value in (("unit:gpus", 1), ("unit:gpu_power_watts", 60), ("unit:gpu_busy_ratio", 0)):
        world.expect(recorded, (whole, value))
    world.expect("unit:gpu_utilization_ratio", (whole, 0))
    world.check()


def test_every_quantity_has_a_name_of_ours_and_is_recorded() -> None:
    recorded = {rule.record for rule in all_rules(RuleOptions())}

    assert {quantity.name for quantity in QUANTITIES} == set(NAMES)
    for quantity in QUANTITIES:
        assert KWHERE in NAMES[quantity.name]
        assert f"gpu:{quantity.name}" in recorded
        assert (f"gpu_instance:{quantity.name}" in recorded) is (quantity.scope is Scope.PLACE)


def test_every_metric_of_ours_in_the_rules_is_one_that_agents_have() -> None:
    """The reference is generated from what collectors declare."""
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    used = {name for rule in all_rules(RuleOptions()) for name in re.findall(r"kwhere_\w+", rule.expression)}

    assert len(used) > 10
    assert {name for name in used if f"`{name}`" not in reference} == set()
    assert "`kwhere_build_info`" in reference  # what the age of a store is told by
