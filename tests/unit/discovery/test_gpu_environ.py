import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, held, job, mig_uuid, node, unit

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_mapping_settings import SlurmOrder
from kwhere.discovery.gpu_environ import NAMES, holds_of, numbers
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gres_conf import gres_bits, parse_gres_conf

EIGHT = [gpu(number) for number in range(8)]
JOB = job(42)
KEY = JOB.key
MIG = gpu(0, instances=[(1, 0, "3g.20gb"), (2, 0, "3g.20gb")])


def holds(
    *environments: dict[str, str],
    key: UnitKey = KEY,
    here: GpuNode | None = None,
    gres: str = "",
    order: SlurmOrder = SlurmOrder.AUTO,
) -> list[Hold]:
    here = here or node(EIGHT, JOB)
    return holds_of(key, environments, here, gres_bits(here.names.of_first_vendor(), parse_gres_conf(gres), order))


def of_job(**variables: str) -> dict[str, str]:
    return {"SLURM_JOB_ID": "42", **variables}


@pytest.mark.parametrize(
    ("environments", "gpus"),
    [
        pytest.param([of_job(SLURM_JOB_GPUS="3")], ["3"], id="case_gpu_69-one-of-eight"),
        pytest.param([of_job(SLURM_JOB_GPUS="0,5")], ["0", "5"], id="list"),
        pytest.param([of_job(SLURM_JOB_GPUS="2-4")], ["2", "3", "4"], id="range"),
        pytest.param([of_job(SLURM_JOB_GPUS="0,5,")], ["0", "5"], id="list-with-a-comma-behind"),
        pytest.param(
            [of_job(SLURM_JOB_GPUS="6", CUDA_VISIBLE_DEVICES="0")],
            ["6"],
            id="case_gpu_69-job-local-index-means-nothing",
        ),
        pytest.param([of_job(SLURM_JOB_GPUS="2,3", SLURM_STEP_GPUS="3")], ["2", "3"], id="case_ceems_221"),
        pytest.param(
            [of_job(SLURM_STEP_GPUS="3"), of_job(SLURM_JOB_GPUS="2,3", SLURM_STEP_GPUS="2")],
            ["2", "3"],
            id="case_ceems_221-another-process-knows-the-whole-job",
        ),
        pytest.param(
            [of_job(SLURM_STEP_GPUS="1"), of_job(SLURM_STEP_GPUS="2")],
            ["1", "2"],
            id="steps-together-where-no-job-list",
        ),
        pytest.param(
            [of_job(), of_job(CUDA_VISIBLE_DEVICES=""), of_job(SLURM_JOB_GPUS="7")],
            ["7"],
            id="case_gpu_60-session-first",
        ),
        pytest.param(
            [{"CUDA_VISIBLE_DEVICES": ""}, of_job(SLURM_JOB_GPUS="7")], ["7"], id="case_gpu_60-session-knows-no-job"
        ),
        pytest.param(
            [of_job(SLURM_JOB_GPUS="2", SLURM_GPUS_ON_NODE="1", SLURM_GPUS_PER_NODE="1")], ["2"], id="case_gpu_64"
        ),
        pytest.param([of_job(CUDA_VISIBLE_DEVICES=f"{UUIDS[2]},{UUIDS[4]}")], ["2", "4"], id="uuids"),
        pytest.param([of_job(CUDA_VISIBLE_DEVICES="GPU-55550000")], ["5"], id="case_gpu_36-prefix"),
        pytest.param([of_job(CUDA_VISIBLE_DEVICES="1")], [], id="a-bare-number-alone-says-nothing"),
        pytest.param([of_job(CUDA_VISIBLE_DEVICES="NoDevFiles")], [], id="no-devices"),
        pytest.param([of_job(CUDA_VISIBLE_DEVICES="-1")], [], id="hidden"),
        pytest.param([of_job(NVIDIA_VISIBLE_DEVICES="all")], [], id="all-are-nobody's"),
        pytest.param(
            [of_job(CUDA_VISIBLE_DEVICES="", ROCR_VISIBLE_DEVICES="5", SLURM_GPUS_ON_NODE="1")],
            ["5"],
            id="case_gpu_68-global",
        ),
        pytest.param(
            [of_job(ROCR_VISIBLE_DEVICES="0", SLURM_GPUS_ON_NODE="1")],
            [],
            id="case_gpu_68-could-be-the-job's-own-count",
        ),
        pytest.param(
            [of_job(ROCR_VISIBLE_DEVICES="0,1,2,3,4,5,6,7", SLURM_GPUS_ON_NODE="8")],
            list("01234567"),
            id="case_gpu_68-all-there-are",
        ),
        pytest.param(
            [of_job(CUDA_VISIBLE_DEVICES="", SLURM_JOB_GPUS="1", ROCR_VISIBLE_DEVICES="0")], ["1"], id="case_gpu_68"
        ),
        pytest.param([{"SLURM_JOB_ID": "41", "SLURM_JOB_GPUS": "0"}], [], id="another-job's-environment"),
        pytest.param([of_job(SLURM_JOB_GPUS="9")], [], id="beyond-the-last"),
        pytest.param([of_job(SLURM_JOB_GPUS="")], [], id="empty"),
        pytest.param([of_job(SLURM_JOB_GPUS="gpu:0")], [], id="nonsense"),
        pytest.param([], [], id="no-process-can-be-read"),
    ],
)
def test_what_a_slurm_job_holds(environments: list[dict[str, str]], gpus: list[str]) -> None:
    assert held(holds(*environments)).get("42", []) == gpus


def test_a_job_holds_a_gpu_alone_and_whole() -> None:
    (hold,) = holds(of_job(SLURM_JOB_GPUS="0"))

    assert (hold.share, hold.exclusive) == (1000, True)


@pytest.mark.parametrize(
    ("variables", "gres", "share"),
    [
        pytest.param({"SLURM_SHARDS_ON_NODE": "2"}, "Name=shard Count=64", 250, id="shards-over-all-GPUs"),
        pytest.param(
            {"SLURM_SHARDS_ON_NODE": "2"}, "Name=shard Count=4 File=/dev/nvidia0", 500, id="shards-of-one-file"
        ),
        pytest.param({"SLURM_SHARDS_ON_NODE": "9"}, "Name=shard Count=8 File=/dev/nvidia0", 1000, id="more-than-all"),
        pytest.param({"SLURM_SHARDS_ON_NODE": "2"}, "", None, id="shards-of-an-unknown-number"),
        pytest.param({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}, "", 250, id="MPS"),
        pytest.param({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33.3"}, "", 330, id="MPS-with-a-fraction"),
        pytest.param({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "250"}, "", 1000, id="MPS-beyond-all"),
    ],
)
def test_shares_of_a_gpu(variables: dict[str, str], gres: str, share: int | None) -> None:
    (hold,) = holds(of_job(SLURM_JOB_GPUS="0", **variables), gres=gres)

    assert (hold.share, hold.exclusive) == (share, False)


def test_shards_on_two_gpus_are_half_on_each() -> None:
    found = holds(
        of_job(SLURM_JOB_GPUS="0,1", SLURM_SHARDS_ON_NODE="4"), gres="Name=shard Count=8 File=/dev/nvidia[0-1]"
    )

    assert [hold.share for hold in found] == [500, 500]


def test_numbers_count_by_pci_address_unless_gres_conf_names_files() -> None:
    here = node([gpu(0, minor=1, pci="0000:10:00.0"), gpu(1, minor=0, pci="0000:20:00.0")], JOB)
    job_0 = of_job(SLURM_JOB_GPUS="0")

    assert held(holds(job_0, here=here))["42"] == ["0"]
    assert held(holds(job_0, here=here, order=SlurmOrder.MINOR))["42"] == ["1"]
    assert held(holds(job_0, here=here, gres="Name=gpu File=/dev/nvidia[0-1]"))["42"] == ["1"]
    assert held(holds(job_0, here=here, gres="AutoDetect=nvml"))["42"] == ["0"]
    assert held(holds(job_0, here=here, gres="Name=gpu File=/dev/nvidia[0-1]", order=SlurmOrder.PCI))["42"] == ["0"]


def test_case_gpu_59_minor_0_that_is_the_librarys_6() -> None:
    devices = [gpu(n, minor=(n + 2) % 8, pci=f"0000:{0x10 + n:02x}:00.0") for n in range(8)]  # minor 0 is index 6

    found = holds(of_job(SLURM_JOB_GPUS="0"), here=node(devices, JOB), gres="Name=gpu File=/dev/nvidia[0-7]")

    assert held(found)["42"] == ["6"]


def test_instances_count_one_by_one() -> None:
    here = node([MIG, gpu(1)], JOB)

    assert held(holds(of_job(SLURM_JOB_GPUS="1,2"), here=here))["42"] == ["1", mig_uuid(0, 1)]


def test_case_gpu_36_an_instance_by_its_uuid() -> None:
    here = node([MIG], JOB)

    assert held(holds(of_job(CUDA_VISIBLE_DEVICES=mig_uuid(0, 1)), here=here))["42"] == [mig_uuid(0, 1)]
    assert held(holds(of_job(CUDA_VISIBLE_DEVICES=f"MIG-{UUIDS[0]}/1/0"), here=here))["42"] == [mig_uuid(0, 0)]


def test_amd_gpus_are_counted_where_there_is_nothing_of_nvidia() -> None:
    here = node([gpu(n, vendor=Vendor.AMD, minor=None) for n in range(2)], JOB)

    assert held(holds(of_job(SLURM_JOB_GPUS="1"), here=here))["42"] == ["1"]


def test_graphics_of_another_vendor_is_not_counted() -> None:
    here = node([gpu(7, vendor=Vendor.INTEL, pci="0000:00:02.0"), gpu(0)], JOB)

    assert held(holds(of_job(SLURM_JOB_GPUS="0"), here=here))["42"] == ["0"]


@pytest.mark.parametrize(
    ("manager", "exclusive"),
    [
        pytest.param("oar", None, id="job"),
        pytest.param("lsf", None, id="job-of-a-site's-rule"),
        pytest.param("kubernetes", None, id="pod"),
        pytest.param("docker", False, id="container"),
        pytest.param("run", False, id="run"),
    ],
)
def test_who_holds_alone_what_it_sees(manager: str, exclusive: bool | None) -> None:
    one = unit(manager, "a")

    found = holds({"NVIDIA_VISIBLE_DEVICES": UUIDS[3], "CUDA_VISIBLE_DEVICES": "0"}, key=one.key, here=node(EIGHT, one))

    assert [(hold.place.device, hold.share, hold.exclusive) for hold in found] == [(UUIDS[3], None, exclusive)]


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("1", ["1"]),
        ("0:1", [mig_uuid(0, 1)]),
        ("0", []),
        ("0:9", []),
        ("nvidia.com/gpu=1", ["1"]),
        ("nvidia.com/gpu=0:1", [mig_uuid(0, 1)]),
        ("nvidia.com/gpu=all", []),
        (f"{mig_uuid(0, 0)},1", ["1", mig_uuid(0, 0)]),
        ("all", []),
    ],
)
def test_a_container_runtimes_numbers_are_the_hosts(value: str, places: list[str]) -> None:
    box = unit("docker", "a")

    found = holds({"NVIDIA_VISIBLE_DEVICES": value}, key=box.key, here=node([MIG, gpu(1)], box))

    assert held(found).get("a", []) == places


def test_mps_that_a_user_sets_himself_makes_no_shared_gpu() -> None:
    own = of_job(SLURM_JOB_GPUS="0", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50")

    (hold,) = holds(of_job(SLURM_JOB_GPUS="0"), own)

    assert (hold.share, hold.exclusive) == (1000, True)


def test_parts_of_intels_devices_are_the_devices() -> None:
    here = node([gpu(n, vendor=Vendor.INTEL, minor=None) for n in range(2)], JOB)

    found = holds(of_job(ZE_AFFINITY_MASK="0.0,0.1,1", SLURM_GPUS_ON_NODE="2"), here=here)

    assert held(found)["42"] == ["0", "1"]


def test_lists_of_numbers() -> None:
    assert numbers("0, 3") == [0, 3]
    assert numbers("1-3") == [1, 2, 3]
    assert numbers(" 0,1, ") == [0, 1]
    assert numbers(" , ") is None
    assert numbers("") is None
    assert numbers("0,GPU-1") is None
    assert numbers("3-1") is None
    assert numbers("0-9999") is None


_VALUES = st.text(max_size=20) | st.sampled_from(["0", "1,2", UUIDS[1], "all", "0-3", "50"])


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), _VALUES), max_size=4))
def test_any_environment_gives_known_gpus_and_whole_shares(environments: list[dict[str, str]]) -> None:
    found = holds(*environments)

    assert all(hold.place.device in UUIDS for hold in found)
    assert all(hold.share is None or 0 <= hold.share <= 1000 for hold in found)
