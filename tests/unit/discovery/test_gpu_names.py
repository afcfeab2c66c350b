import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, mig_uuid

from kwhere.devices.gpu import Vendor
from kwhere.discovery.gpu_names import GpuNames, NodeFacts, Place, split_replica

A100 = [
    (1, 0, "1g.12gb"),
    (2, 0, "2g.20gb"),
    (7, 0, "1g.5gb"),
    (8, 0, "1g.5gb"),
    (9, 0, "1c.3g.20gb"),
    (9, 1, "1c.3g.20gb"),
]
FACTS = NodeFacts(
    cards={"card0": "0000:10:00.0", "card1": "0000:12:00.0", "renderD129": "0000:12:00.0"},
    capabilities={66: (1, 1, None), 67: (1, 1, 0), 70: (1, 9, None), 72: (1, 9, 1)},
    partitions={7: ("0000:c5:00.0", 1)},
)
AMD = gpu(
    0,
    vendor=Vendor.AMD,
    uuid="a2ff74a1-0000-1000-80e2-4ac4ef2ee3b7",
    pci="0000:c5:00.0",
    minor=None,
    instances=[(0, 0, "1x"), (1, 0, "1x")],
    facts={"unique_id": "0x1e3ef2c44ae280a2"},
)
NAMES = GpuNames([gpu(0, minor=2), gpu(1, minor=1, instances=A100), gpu(2, minor=0), AMD], FACTS)
IN_1 = [Place(UUIDS[1], mig_uuid(1, number)) for number in range(6)]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(UUIDS[0], [Place(UUIDS[0])], id="uuid"),
        pytest.param(UUIDS[0].upper(), [Place(UUIDS[0])], id="uuid-in-capitals"),
        pytest.param(f" {UUIDS[0]} ", [Place(UUIDS[0])], id="uuid-with-blanks"),
        pytest.param(f"{UUIDS[0]}::0", [Place(UUIDS[0])], id="case_gpu_41"),
        pytest.param(f"{UUIDS[0]}::31", [Place(UUIDS[0])], id="case_gpu_45-mps-replica-by-uuid"),
        pytest.param("GPU-0000", [Place(UUIDS[0])], id="case_gpu_36-prefix-of-a-uuid"),
        pytest.param("GPU-", [], id="prefix-of-every-uuid"),
        pytest.param(mig_uuid(1, 1), [IN_1[1]], id="case_gpu_36-MIG"),
        pytest.param("MIG-11aa", [IN_1[1]], id="case_gpu_36-prefix-of-MIG"),
        pytest.param("MIG-1", [], id="prefix-too-short"),
        pytest.param(f"{mig_uuid(1, 1)}::2", [IN_1[1]], id="replica-of-MIG"),
        pytest.param(f"MIG-{UUIDS[1]}/1/0", [IN_1[0]], id="case_gpu_36-old-drivers"),
        pytest.param(f"MIG-{UUIDS[1]}/9/1", [IN_1[5]], id="old-drivers-compute-instance"),
        pytest.param(f"MIG-{UUIDS[1]}/4/0", [], id="old-drivers-no-such-instance"),
        pytest.param("nvidia0", [Place(UUIDS[2])], id="case_gpu_59-GKE-counts-minors"),
        pytest.param("nvidia1/gi9", IN_1[4:], id="GKE-MIG-both-compute-instances"),
        pytest.param("nvidia1/gi1/vgpu0", [IN_1[0]], id="GKE-MIG-shared"),
        pytest.param("nvidia2/vgpu1", [Place(UUIDS[0])], id="GKE-time-sharing"),
        pytest.param("nvidia.com/gpu=0", [Place(UUIDS[0])], id="CDI-index-not-minor"),
        pytest.param("nvidia.com/gpu=1:1", [IN_1[1]], id="CDI-instance-by-position"),
        pytest.param("nvidia.com/gpu=1", [], id="CDI-a-divided-device-is-nobody's"),
        pytest.param(f"nvidia.com/gpu={UUIDS[2]}", [Place(UUIDS[2])], id="case_gpu_36-CDI-uuid"),
        pytest.param(f"k8s.device-plugin.nvidia.com/gpu={mig_uuid(1, 1)}", [IN_1[1]], id="case_gpu_36-CDI-MIG"),
        pytest.param("runtime.nvidia.com/gpu=all", [], id="CDI-all"),
        pytest.param("nvidia.com/gpu=nvidia.com/gpu=0", [], id="CDI-twice"),
        pytest.param("example.com/gpu=0", [], id="CDI-another-vendor"),
        pytest.param("0000:10:00.0", [Place(UUIDS[0])], id="PCI"),
        pytest.param("00000000:12:00.0", [Place(UUIDS[2])], id="PCI-as-NVML-has-it"),
        pytest.param("card1-0", [Place(UUIDS[2])], id="Intel-card-and-replica"),
        pytest.param("card9-0", [], id="Intel-unknown-card"),
        pytest.param("amdgpu_xcp_7", [Place(AMD.uuid, mig_uuid(0, 1))], id="AMD-partition"),
        pytest.param("amdgpu_xcp.7", [Place(AMD.uuid, mig_uuid(0, 1))], id="AMD-partition-with-dot"),
        pytest.param("0000:c5:00.0", [Place(AMD.uuid, mig_uuid(0, 0))], id="AMD-first-partition-by-the-GPU's-address"),
        pytest.param("amdgpu_xcp_3", [], id="AMD-unknown-partition"),
        pytest.param("GPU-1e3ef2c44ae280a2", [Place(AMD.uuid)], id="ROCm-unique-id"),
        *(pytest.param(word, [], id=f"no-device-{word}") for word in ("all", "void", "none", "0", "", "NoDevFiles")),
    ],
)
def test_names_of_every_origin_are_found(text: str, places: list[Place]) -> None:
    assert list(NAMES.find(text)) == places


@pytest.mark.parametrize(
    ("name", "places"),
    [
        pytest.param("gpu-0", [Place(UUIDS[2])], id="whole-by-minor"),
        pytest.param("gpu-1-mig-1g12gb-19-6", [IN_1[0]], id="case_gpu_50-profile"),
        pytest.param("gpu-1-mig-1g5gb-19-6", [], id="two-of-one-profile-cannot-be-told-apart"),
        pytest.param("gpu-0-mig-19-6-1", [], id="older-without-profile"),
        pytest.param("gpu-vfio-0", [], id="passed-through"),
    ],
)
def test_names_of_claimed_devices(name: str, places: list[Place]) -> None:
    assert list(NAMES.of(Vendor.NVIDIA).by_claim(name)) == places


def test_two_gpus_with_one_prefix_are_not_told_apart() -> None:
    twins = GpuNames([gpu(0, uuid="GPU-abcdef00-1"), gpu(1, uuid="GPU-abcdef00-2")])

    assert twins.find("GPU-abcdef") == ()


def test_index_and_minor_are_two_numbers() -> None:
    assert NAMES.of(Vendor.NVIDIA).by_index(0) == (Place(UUIDS[0]),)
    assert NAMES.by_minor(0) == (Place(UUIDS[2]),)


def test_where_no_minor_is_known_it_is_the_index() -> None:
    assert GpuNames([gpu(0, minor=None), gpu(1, minor=None)]).by_minor(1) == (Place(UUIDS[1]),)


def test_device_files_open_devices_and_instances() -> None:
    assert NAMES.by_file("/dev/nvidia2") == (Place(UUIDS[0]),)
    assert NAMES.by_file("/dev/nvidia-caps/nvidia-cap66") == (IN_1[0],)
    assert NAMES.by_file("/dev/nvidia-caps/nvidia-cap72") == (IN_1[5],)
    assert NAMES.by_file("/dev/dri/renderD129") == (Place(UUIDS[2]),)
    assert NAMES.by_file("/dev/nvidiactl") == ()


def test_what_can_be_given_out_comes_in_order() -> None:
    assert NAMES.of(Vendor.NVIDIA).one_by_one() == (Place(UUIDS[0]), *IN_1, Place(UUIDS[2]))
    assert NAMES.of(Vendor.NVIDIA).one_by_one(by_minor=True) == (Place(UUIDS[2]), *IN_1, Place(UUIDS[0]))


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("GPU-1::3", ("GPU-1", 3)),
        ("nvidia0/gi3/vgpu2", ("nvidia0/gi3", 2)),
        ("nvidia0/vgpu1", ("nvidia0", 1)),
        ("nvidia0", ("nvidia0", None)),
        ("card1-0", ("card1", 0)),
        ("GPU-1", ("GPU-1", None)),
        ("0000:c5:00.0", ("0000:c5:00.0", None)),
    ],
)
def test_replicas_are_told_from_devices(text: str, split: tuple[str, int | None]) -> None:
    assert split_replica(text) == split


@given(
    st.text(max_size=60)
    | st.from_regex(r"(GPU-|MIG-|nvidia|gpu-|card|nvidia.com/gpu=)[0-9a-f:./=-]{0,40}", fullmatch=True)
)
def test_any_text_names_something_or_nothing(text: str) -> None:
    assert all(place.device in {device.uuid for device in NAMES.devices} for place in NAMES.find(text))
    assert NAMES.by_file(text) is not None
