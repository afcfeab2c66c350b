"""The recording rules where GPUs are divided or shared: nothing counted twice; every figure by hand."""

from pathlib import Path

import pytest
from tests.unit.alerts.rule_world import RuleWorld, at, dcgm, own, unit_on

pytestmark = pytest.mark.service("promtool")
A, B = (f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "ab")
MEBI = 2**20
INSTANCES = (("1", "3g.20gb"), ("5", "2g.10gb"), ("13", "1g.5gb+me"))


@pytest.fixture
def world(tmp_path: Path) -> RuleWorld:
    return RuleWorld(tmp_path)


def divided(world: RuleWorld, jobs: tuple[str, ...] = ("11", "12", "13")) -> None:
    """Add an A100 of 140 W in three instances, as dcgm-exporter shows it: power on each, no whole GPU."""
    figures = zip(INSTANCES, jobs, (0.7, 0.35, 0.0), (1024, 512, 0), (140.0, 139.5, 139.0), strict=True)
    for instance, job, active, used, watts in figures:
        labels = {**dcgm(A, instance=instance), **({"hpc_job": job} if job else {})}
        world.gauge("DCGM_FI_DEV_POWER_USAGE", watts, **labels)
        world.gauge("DCGM_FI_DEV_GPU_UTIL", 0, **labels)
        world.gauge("DCGM_FI_DEV_FB_USED", used, **labels)
        world.gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", active, **labels)
        world.gauge("DCGM_FI_DEV_GPU_TEMP", 51, **labels)


def test_a_divided_gpu_is_counted_once_case_ceems_397(world: RuleWorld) -> None:
    divided(world)

    world.expect("gpu:power_watts", (at(A, "dcgm"), 140))
    world.expect("gpu:temperature_celsius", (at(A, "dcgm"), 51))
    world.expect("gpu:memory_used_bytes", (at(A, "dcgm"), 1536 * MEBI))
    world.expect("node:gpu_power_watts", ({"cluster": "c", "node": "n1"}, 140))
    world.expect("node:gpus", ({"cluster": "c", "node": "n1"}, 1))
    world.check()


def test_a_field_that_instances_lack_falls_back_to_their_activity_case_ceems_397(world: RuleWorld) -> None:
    """GPU_UTIL is 0 on each instance, which is no value: 0.7 × 3/7 + 0.35 × 2/7 + 0 × 1/7 = 0.4."""
    divided(world)

    world.expect("gpu:kernel_active_ratio")
    world.expect("gpu:utilization_ratio", (at(A, "dcgm", field="engine_active"), 0.4))
    world.check()


def test_jobs_of_instances_have_their_profiles_share_case_ceems_397(world: RuleWorld) -> None:
    divided(world)

    world.expect(
        "job:gpu_power_watts",
        *(
            ({"cluster": "c", "node": "n1", "hpc_job": job}, watts)
            for job, watts in (("11", 60), ("12", 40), ("13", 20))
        ),
    )
    world.check()


SHARES = (
    ("NVIDIA A100-SXM4-40GB", "7g.40gb", 1.0),
    ("NVIDIA H100 NVL", "1c.4g.47gb", 4 / 7),
    ("NVIDIA H100 80GB HBM3", "1g.20gb", 1 / 7),
    ("NVIDIA A30", "1g.6gb", 0.25),
    ("NVIDIA A30", "4g.24gb", 1.0),
    ("NVIDIA A30", "2g.12gb+me", 0.5),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "2g.48gb", 0.5),
)


def test_an_instances_share_is_its_slices_of_the_models_case_ceems_397(world: RuleWorld) -> None:
    found = []
    for number, (model, profile, share) in enumerate(SHARES):
        theirs, ours = f"GPU-{number}", f"GPU-{number + 100}"
        world.gauge("DCGM_FI_DEV_FB_USED", 1, **dcgm(theirs, instance=("3", profile), modelName=model))
        world.gauge("kwhere_gpu_info", 1, **own(ours, vendor="nvidia", model=model))
        world.gauge("kwhere_gpu_instance_info", 1, **own(ours, mig="MIG-1", profile=profile, gpu_instance="3"))
        for uuid, source in ((theirs, "dcgm"), (ours, "kwhere")):
            found.append((at(uuid, source, gpu_instance="3", profile=profile), share))

    world.expect("gpu_instance:share_ratio", *found)
    world.check()


def test_partitions_of_other_makers_share_equally(world: RuleWorld) -> None:
    world.gauge("kwhere_gpu_info", 1, **own("72", vendor="amd", model="MI300X"))
    for number in range(8):
        more = {"profile": "cpx/nps1", "gpu_instance": str(number)}
        world.gauge("kwhere_gpu_instance_info", 1, **own("72", mig=f"72-{number}", **more))

    labels = [at("72", "kwhere", gpu_instance=str(number), profile="cpx/nps1") for number in range(8)]
    world.expect("gpu_instance:share_ratio", *((each, 0.125) for each in labels))
    world.check()


def units_of_instances(world: RuleWorld) -> None:
    """Let two units hold two instances of the divided GPU, as an agent tells it that has no power of its own."""
    divided(world, ("", "", ""))
    world.gauge("kwhere_gpu_info", 1, **own(A, vendor="nvidia", model="NVIDIA A100-SXM4-40GB"))
    for (number, profile), unit, share in zip(INSTANCES, ("41", "42", ""), (3 / 7, 2 / 7, 1 / 7), strict=True):
        mig = f"MIG-{number}"
        world.gauge("kwhere_gpu_instance_info", 1, **own(A, mig=mig, profile=profile, gpu_instance=number))
        if unit:
            world.gauge("kwhere_unit_gpu_share_ratio", share, **unit_on(A, unit, mig=mig))


def test_units_of_instances_have_their_share_of_the_gpus_power_once_case_ceems_397(world: RuleWorld) -> None:
    units_of_instances(world)
    whole = {"cluster": "c", "manager": "slurm"}

    world.expect("unit:gpu_power_watts", ({**whole, "unit": "41"}, 60), ({**whole, "unit": "42"}, 40))
    world.expect("unit:gpus", *(({**whole, "unit": u}, n / 7) for u, n in (("41", 3), ("42", 2))))
    world.check()


def test_units_of_instances_are_as_busy_as_their_instance_case_ceems_397(world: RuleWorld) -> None:
    units_of_instances(world)
    whole = {"cluster": "c", "manager": "slurm"}

    world.expect("unit:gpu_utilization_ratio", ({**whole, "unit": "41"}, 0.7), ({**whole, "unit": "42"}, 0.35))
    world.check()


def test_an_instance_that_was_made_anew_fails_no_rule(world: RuleWorld) -> None:
    """For a moment its old and its new profile are both there; every other GPU's series must go on."""
    units_of_instances(world)
    world.gauge("kwhere_gpu_instance_info", 1, **own(A, mig="MIG-1", profile="1g.5gb", gpu_instance="9"))
    world.gauge("kwhere_gpu_activity_ratio", 0.5, **own(A, mig="MIG-5", part="graphics"))
    world.gauge("kwhere_gpu_activity_ratio", 0.5, **own(A, mig="MIG-1", part="graphics"))

    world.expect("count(unit:gpu_power_watts)", ({}, 2))
    world.expect('count(gpu_instance:engine_active_ratio{gpu_instance="5"})', ({}, 1))
    world.check()


def test_a_units_own_account_goes_before_shares_case_ceems_397(world: RuleWorld) -> None:
    """On n1 the agent measures GPUs, on n2 another exporter does: 150 W + half of 200 W."""
    labels = {"cluster": "c", "manager": "slurm", "unit": "42"}
    energy = {**labels, "node": "n1", "run": "1", "component": "gpu", "part": "dynamic"}
    world.counter("kwhere_unit_energy_joules_total", 150, **energy)
    world.gauge("kwhere_gpu_power_watts", 400, **own(A))
    world.gauge("kwhere_unit_gpu_share_ratio", 1, **unit_on(A, "42"))
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 200, **dcgm(B, "n2"))
    world.gauge("kwhere_unit_gpu_share_ratio", 0.5, **unit_on(B, "42", "n2", run="2"))

    world.expect("unit:gpu_power_watts", (labels, 250))
    world.check()


def test_pods_that_share_a_gpu_have_equal_parts_of_it(world: RuleWorld) -> None:
    """With time slicing dcgm-exporter shows a GPU once per pod."""
    for pod in ("a", "b"):
        labels = dcgm(A, exported_namespace="ml", exported_pod=pod, namespace="gpu-operator", pod="dcgm-exporter-x")
        world.gauge("DCGM_FI_DEV_POWER_USAGE", 300, **labels)
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 70, **dcgm(B, namespace="gpu-operator", pod="dcgm-exporter-x"))

    found = [({"cluster": "c", "node": "n1", "namespace": "ml", "pod": pod}, 150.0) for pod in ("a", "b")]
    world.expect("pod:gpu_power_watts", *found)
    world.expect("gpu:power_watts", (at(A, "dcgm"), 300), (at(B, "dcgm"), 70))
    world.check()


def test_pods_whose_labels_the_scrape_honours_are_pods_too(world: RuleWorld) -> None:
    world.gauge("DCGM_FI_DEV_POWER_USAGE", 300, **dcgm(A, namespace="ml", pod="train-0"))

    world.expect("pod:gpu_power_watts", ({"cluster": "c", "node": "n1", "namespace": "ml", "pod": "train-0"}, 300))
    world.check()


def test_a_whole_page_of_a_divided_gpu_is_read_right_case_ceems_397(world: RuleWorld) -> None:
    """The golden page of an H100 in 3g.40gb and 1g.10gb: 300.5 W, 10 GiB and 0.8 of three sevenths."""
    uuid = "GPU-a0000000-1111-2222-3333-000000000000"
    page = Path(__file__).parents[2] / "golden" / "dcgm-h100-mig.prom"
    world.page(page.read_bytes(), cluster="c", job="dcgm", instance="node1:9400")

    there = at(uuid, "dcgm", "node1")
    world.expect("gpu:power_watts", (there, 300.5))
    world.expect("gpu:memory_used_bytes", (there, 10240 * MEBI))
    world.expect("gpu:utilization_ratio", ({**there, "field": "engine_active"}, 0.8 * 3 / 7))
    world.expect("gpu:kernel_active_ratio")
    world.check()


def test_more_than_all_of_an_instance_is_all_of_it(world: RuleWorld) -> None:
    """DCGM has shown 1.1 for instances."""
    world.gauge("DCGM_FI_PROF_SM_ACTIVE", 1.1, **dcgm(A, instance=INSTANCES[0]))

    labels = at(A, "dcgm", gpu_instance="1", profile="3g.20gb")
    world.expect("gpu_instance:sm_active_ratio", (labels, 1))
    world.check()
