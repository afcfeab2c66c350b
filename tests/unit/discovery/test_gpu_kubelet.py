from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, held, mig_uuid, node, pod, unit
from tests.kubelet import Kubelet, claim, container, devices, encode, serving
from tests.kubelet import pod as listed

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery.gpu_claims import ClaimSource, GpuClaim
from kwhere.discovery.gpu_holds import GpuNode, claims_of
from kwhere.discovery.gpu_kubelet import KubeletFinder
from kwhere.discovery.gpu_names import NodeFacts
from kwhere.discovery.gpu_pods import is_gpu_resource
from kwhere.discovery.pod_resources import ContainerDevice, PodResources, parse_allocatable, parse_list

MIG = gpu(1, instances=[(1, 0, "1g.12gb"), (2, 0, "3g.40gb"), (3, 0, "1g.5gb"), (4, 0, "1g.5gb")])
DEVICES = [gpu(0), MIG, gpu(2), gpu(3)]
TRAIN, SERVE = pod("ml", "train"), pod("ml", "serve")
HERE = node(DEVICES, TRAIN, SERVE)


class Asked:
    """A finder over a real socket."""

    def __init__(self, kubelet: Kubelet, directory: Path, **settings: Any) -> None:
        self.kubelet = kubelet
        self.dead: set[UnitKey] = set()
        self.now_ns = 0
        chosen = GpuMappingSettings(kubelet_socket=kubelet.path, cdi_dirs=(directory,), **settings)
        self.finder = KubeletFinder(chosen, lambda unit: unit.key not in self.dead, lambda: self.now_ns)

    def claims(self, *pods: dict[str, Any], here: GpuNode = HERE) -> list[GpuClaim]:
        self.kubelet.pods = list(pods)
        return claims_of(self.finder.find(here))


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with serving(tmp_path) as kubelet:
        yield Asked(kubelet, tmp_path)


def one(resource: str, *ids: str, name: str = "train") -> dict[str, Any]:
    return listed("ml", name, container("main", devices(resource, *ids)))


def test_a_pod_holds_its_gpu_whole_and_alone(asked: Asked) -> None:
    (found,) = asked.claims(one("nvidia.com/gpu", UUIDS[0]))

    assert found == GpuClaim(TRAIN.key, UUIDS[0], source=ClaimSource.POD_RESOURCES)


def test_case_gpu_42_shared_gpus_need_no_setting(asked: Asked) -> None:
    asked.kubelet.allocatable = [devices("nvidia.com/gpu.shared", *(f"{UUIDS[0]}::{n}" for n in range(4)))]

    (found,) = asked.claims(one("nvidia.com/gpu.shared", f"{UUIDS[0]}::1"))

    assert (found.device, found.share, found.exclusive) == (UUIDS[0], 250, False)


def test_case_gpu_41_replicas_of_a_renamed_and_a_plain_resource(asked: Asked) -> None:
    asked.kubelet.allocatable = [devices("nvidia.com/gpu", *(f"{UUIDS[0]}::{n}" for n in range(3)))]

    found = asked.claims(
        one("nvidia.com/gpu", f"{UUIDS[0]}::0", f"{UUIDS[0]}::2"), one("nvidia.com/gpu", f"{UUIDS[0]}::1", name="serve")
    )

    assert {claim.unit.unit: claim.share for claim in found} == {TRAIN.key.unit: 667, SERVE.key.unit: 333}


def test_case_gpu_45_mps_replicas_lie_where_their_uuid_says(asked: Asked) -> None:
    asked.kubelet.allocatable = [
        devices("nvidia.com/gpu", *(f"{uuid}::{n}" for uuid in (UUIDS[2], UUIDS[0]) for n in range(2)))
    ]

    found = asked.claims(one("nvidia.com/gpu", f"{UUIDS[2]}::0"), one("nvidia.com/gpu", f"{UUIDS[0]}::1", name="serve"))

    assert held(found) == {TRAIN.key.unit: ["2"], SERVE.key.unit: ["0"]}
    assert {claim.share for claim in found} == {500}


def test_a_kubelet_that_does_not_tell_how_many_replicas_leaves_those_in_use(asked: Asked) -> None:
    found = asked.claims(one("nvidia.com/gpu", f"{UUIDS[0]}::3"), one("nvidia.com/gpu", f"{UUIDS[0]}::0", name="serve"))

    assert [claim.share for claim in found] == [250, 250]  # number 3 is the fourth


def test_the_number_of_replicas_is_asked_again_after_a_minute(asked: Asked) -> None:
    asked.kubelet.allocatable = [devices("nvidia.com/gpu", *(f"{UUIDS[0]}::{n}" for n in range(2)))]
    pods = one("nvidia.com/gpu", f"{UUIDS[0]}::1")
    assert [claim.share for claim in asked.claims(pods)] == [500]
    asked.kubelet.allocatable = [devices("nvidia.com/gpu", *(f"{UUIDS[0]}::{n}" for n in range(10)))]
    assert [claim.share for claim in asked.claims(pods)] == [500]

    asked.now_ns += 61_000_000_000

    assert [claim.share for claim in asked.claims(pods)] == [100]


@pytest.mark.parametrize(
    ("resource", "device_id", "place"),
    [
        ("nvidia.com/mig-1g.12gb", mig_uuid(1, 0), mig_uuid(1, 0)),
        ("nvidia.com/mig-1g.12gb.shared", f"{mig_uuid(1, 0)}::2", mig_uuid(1, 0)),
        ("nvidia.com/mig-3g.40gb", f"MIG-{UUIDS[1]}/2/0", mig_uuid(1, 1)),
        ("nvidia.com/gpu", "nvidia1/gi3/vgpu0", mig_uuid(1, 2)),
        ("nvidia.com/gpu", "nvidia2", "2"),
    ],
)
def test_ids_of_every_plugin(asked: Asked, resource: str, device_id: str, place: str) -> None:
    assert held(asked.claims(one(resource, device_id))) == {TRAIN.key.unit: [place]}


@pytest.mark.parametrize(
    ("resource", "device_id"), [("amd.com/gpu", "0000:10:00.0"), ("amd.com/gpu_cpx", "amdgpu_xcp_7")]
)
def test_amds_ids(asked: Asked, resource: str, device_id: str) -> None:
    facts = NodeFacts(partitions={7: ("0000:10:00.0", 3)})
    here = node([gpu(0, vendor=Vendor.AMD)], TRAIN, facts=facts)

    assert held(asked.claims(one(resource, device_id), here=here)) == {TRAIN.key.unit: ["0"]}


@pytest.mark.parametrize("resource", ["gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_intels_ids(asked: Asked, resource: str) -> None:
    asked.kubelet.allocatable = [devices(resource, "card1-0", "card1-1")]
    here = node([gpu(0, vendor=Vendor.INTEL)], TRAIN, facts=NodeFacts(cards={"card1": "0000:10:00.0"}))

    (found,) = asked.claims(one(resource, "card1-1"), here=here)

    assert (found.device, found.share) == (UUIDS[0], 500)


def test_a_device_that_cannot_be_shared_may_have_a_replica_of_its_own(asked: Asked) -> None:
    asked.kubelet.allocatable = [devices("gpu.intel.com/xe", "card1-0")]
    here = node([gpu(0, vendor=Vendor.INTEL)], TRAIN, facts=NodeFacts(cards={"card1": "0000:10:00.0"}))

    (found,) = asked.claims(one("gpu.intel.com/xe", "card1-0"), here=here)

    assert (found.share, found.exclusive) == (1000, True)


def test_case_gpu_46_one_of_two_containers_has_a_gpu(asked: Asked) -> None:
    asked.claims(listed("ml", "train", container("sidecar"), container("main", devices("nvidia.com/gpu", UUIDS[0]))))

    assert [(device.container, device.unit) for device in asked.finder.pods] == [("main", TRAIN.key)]


def test_an_init_container_leaves_its_gpu_to_the_next(asked: Asked) -> None:
    asked.kubelet.allocatable = [devices("nvidia.com/gpu", *(f"{UUIDS[0]}::{n}" for n in range(4)))]
    replica = devices("nvidia.com/gpu", f"{UUIDS[0]}::1")

    (found,) = asked.claims(listed("ml", "train", container("init", replica), container("main", replica)))

    assert found.share == 250


def test_case_gpu_48_devices_that_nobody_claimed_are_nobodys(asked: Asked) -> None:
    found = asked.claims(listed("ml", "train", container("main", claims=[claim("c", "gpu-0")])))

    assert held(found) == {TRAIN.key.unit: ["0"]}
    assert len(HERE.names.devices) == 4


def test_case_gpu_49_a_claims_pod_has_its_uid(asked: Asked) -> None:
    asked.claims(listed("ml", "train", container("main", claims=[claim("c", "gpu-0")])))

    (device,) = asked.finder.pods
    assert device.unit == TRAIN.key
    assert (device.claim_namespace, device.claim, device.driver, device.pool, device.device_id) == (
        "ml",
        "c",
        "gpu.nvidia.com",
        "node-1",
        "gpu-0",
    )


def test_case_gpu_50_a_claim_of_two_pods(asked: Asked) -> None:
    found = asked.claims(
        listed("ml", "train", container("main", claims=[claim("c", "gpu-0")])),
        listed("ml", "serve", container("main", claims=[claim("c", "gpu-0")])),
    )

    assert held(found) == {TRAIN.key.unit: ["0"], SERVE.key.unit: ["0"]}
    assert [(claim.share, claim.exclusive, claim.source) for claim in found] == [(500, False, ClaimSource.DRA)] * 2


CDI = """
kind: k8s.gpu.nvidia.com/claim
devices:
- name: u-gpu-1-mig-19-6-1
  containerEdits: {deviceNodes: [{path: /dev/nvidia1}, {path: /dev/nvidia-caps/nvidia-cap40}]}
"""


def test_case_gpu_50_claimed_instances_are_told_apart(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "k8s.gpu.nvidia.com-claim_u.yaml").write_text(CDI)
    here = node(DEVICES, TRAIN, SERVE, facts=NodeFacts(capabilities={40: (1, 4, None)}))
    by_files = claim("c", "gpu-1-mig-19-6-1", "k8s.gpu.nvidia.com/claim=u-gpu-1-mig-19-6-1")
    by_name = claim("d", "gpu-1-mig-1g12gb-19-0")

    found = asked.claims(
        listed("ml", "train", container("main", claims=[by_files])),
        listed("ml", "serve", container("main", claims=[by_name])),
        here=here,
    )

    assert held(found) == {TRAIN.key.unit: [mig_uuid(1, 3)], SERVE.key.unit: [mig_uuid(1, 0)]}


def test_a_claimed_instance_that_cannot_be_told_is_not_guessed(asked: Asked) -> None:
    assert asked.claims(listed("ml", "train", container("main", claims=[claim("c", "gpu-1-mig-1g5gb-19-6")]))) == []
    assert asked.finder.pods[0].place is None


def test_claims_of_other_drivers_are_no_gpus(asked: Asked) -> None:
    assert (
        asked.claims(listed("ml", "train", container("main", claims=[claim("c", "gpu-0", driver="nic.example")]))) == []
    )


def test_intels_and_amds_claims(asked: Asked) -> None:
    facts = NodeFacts(cards={"renderD128": "0000:11:00.0"})
    here = node([gpu(0, vendor=Vendor.INTEL), gpu(1, vendor=Vendor.AMD)], TRAIN, facts=facts)
    claims = [
        claim("c", "0000-10-00-0-0x56a0", driver="gpu.intel.com"),
        claim("d", "gpu-0-128", driver="gpu.amd.com"),
    ]

    assert held(asked.claims(listed("ml", "train", container("main", claims=claims)), here=here)) == {
        TRAIN.key.unit: ["0", "1"]
    }


def test_a_pod_that_ended_and_is_gone_holds_nothing(asked: Asked) -> None:
    assert held(asked.claims(one("nvidia.com/gpu", UUIDS[0], name="done"), one("nvidia.com/gpu", UUIDS[0]))) == {
        TRAIN.key.unit: ["0"]
    }


def test_a_pod_that_ended_and_stands_yet_loses_to_the_next(asked: Asked) -> None:
    asked.dead.add(SERVE.key)

    found = asked.claims(one("nvidia.com/gpu", UUIDS[0]), one("nvidia.com/gpu", UUIDS[0], name="serve"))

    assert {claim.unit.unit: claim.live for claim in found} == {TRAIN.key.unit: True, SERVE.key.unit: False}


def test_two_pods_of_one_name_while_one_is_replaced(asked: Asked) -> None:
    old, new = pod("ml", "train", uid="old"), pod("ml", "train", uid="new")
    asked.dead.add(old.key)

    found = asked.claims(one("nvidia.com/gpu", UUIDS[0]), here=node(DEVICES, old, new))

    assert {claim.unit.unit: claim.live for claim in found} == {"old": False, "new": True}


@pytest.mark.parametrize(
    ("namespaces", "place"),
    [pytest.param(["ml"], ["0"], id="one"), pytest.param(["ml", "other"], [], id="the-same-name-twice")],
)
def test_a_pod_whose_log_directory_cannot_be_seen_goes_by_its_host_name(
    tmp_path: Path, namespaces: list[str], place: list[str]
) -> None:
    nameless = unit("kubernetes", "uid-1")
    with serving(tmp_path) as kubelet:
        kubelet.pods = [
            listed(namespace, "train", container("main", devices("nvidia.com/gpu", UUIDS[index])))
            for index, namespace in enumerate(namespaces)
        ]
        settings = GpuMappingSettings(kubelet_socket=kubelet.path)
        finder = KubeletFinder(settings, lambda pod: True, lambda: 0, lambda pod: "train")

        found = finder.find(node([gpu(0), gpu(1)], nameless))

    assert held(found).get("uid-1", []) == place


def test_more_names_by_setting(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        asked = Asked(kubelet, tmp_path, resource_names=("example.com/gpu",))

        assert held(asked.claims(one("example.com/gpu", UUIDS[0]))) == {TRAIN.key.unit: ["0"]}


@pytest.mark.parametrize(
    ("name", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1c.3g.20gb.shared", True),
        ("nvidia.com/mig-1g.10gb.me", True),
        ("amd.com/gpu_cpx_nps4", True),
        ("gpu.intel.com/i915", True),
        ("gpu.intel.com/i915_monitoring", False),
        ("nvidia.com/gpumem", False),
        ("cpu", False),
        ("intel.com/sriov", False),
    ],
)
def test_which_resources_are_gpus(name: str, is_gpu: bool) -> None:
    assert is_gpu_resource(name) is is_gpu


def test_without_a_kubelet_it_is_absent(tmp_path: Path) -> None:
    finder = KubeletFinder(GpuMappingSettings(kubelet_socket=tmp_path / "none"), lambda unit: True, lambda: 0)

    with pytest.raises(Unavailable) as caught:
        finder.find(HERE)

    assert caught.value.reason == "absent"


_TEXT = st.text(max_size=12)
_DEVICES = st.builds(lambda resource, ids: devices(resource, *ids), _TEXT, st.lists(_TEXT, max_size=3))


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT, st.lists(_DEVICES, max_size=3)), max_size=4))
def test_whatever_kubelet_writes_is_read_back(pods: list[tuple[str, str, str, list[dict[str, Any]]]]) -> None:
    data = encode("List", {"pod_resources": [listed(ns, name, container(box, *held)) for ns, name, box, held in pods]})

    assert parse_list(data, "x").devices == tuple(
        ContainerDevice(ns, name, box, one["resource_name"], device_id)
        for ns, name, box, held in pods
        for one in held
        for device_id in one["device_ids"]
    )


@pytest.mark.parametrize("parse", [parse_list, parse_allocatable])
@given(data=st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(parse: Callable[[bytes, str], object], data: bytes) -> None:
    with suppress(SourceError):
        assert isinstance(parse(data, "x"), PodResources | tuple)
