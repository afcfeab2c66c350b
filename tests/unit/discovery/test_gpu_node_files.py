"""Device rules, domains, OAR's resources, CDI and the kernel's names: texts that others write."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, mig_uuid
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.discovery.gpu_cdi import CdiFiles, parse_cdi
from kwhere.discovery.gpu_device_rules import DeviceRules, parse_device_rules, places_of
from kwhere.discovery.gpu_domain import DomainDevices, parse_devices
from kwhere.discovery.gpu_names import GpuNames, NodeFacts, Place
from kwhere.discovery.gpu_node_facts import (
    parse_capabilities,
    parse_majors,
    read_node_facts,
    sees_host_processes,
)
from kwhere.discovery.gpu_oar import parse_gpu_devices

FACTS = NodeFacts(
    cards={"card2": "0000:11:00.0", "renderD130": "0000:11:00.0"},
    capabilities={30: (2, 1, None), 31: (2, 1, 0)},
    majors={"nvidia": 195, "nvidia-caps": 234, "drm": 226},
)
NAMES = GpuNames([gpu(0, minor=1), gpu(1, minor=0), gpu(2, instances=[(1, 0, "3g.20gb")])], FACTS)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param("c 195:0 rwm\nc 195:255 rw\n", [Place(UUIDS[1])], id="case_gpu_60-minor"),
        pytest.param("c 195:1 rwm\nc 195:0 rwm\n", [Place(UUIDS[0]), Place(UUIDS[1])], id="two"),
        pytest.param("a *:* rwm\n", [], id="everything-is-open"),
        pytest.param("a *:* rwm\nc 195:0 rwm\n", [], id="one-of-everything"),
        pytest.param("c 195:* rwm\n", [], id="all-of-NVIDIA's"),
        pytest.param("c *:* m\nc 195:0 rwm\n", [], id="all-character-devices"),
        pytest.param(
            "c 195:2 rwm\nc 234:30 r\nc 234:31 r\n", [Place(UUIDS[2], mig_uuid(2, 0))], id="case_gpu_34-instance"
        ),
        pytest.param("c 195:2 rwm\n", [], id="a-divided-GPU's-own-file"),
        pytest.param("c 226:2 rw\nc 226:130 rw\n", [Place(UUIDS[1])], id="card-and-render-node"),
        pytest.param("c 195:254 rw\nc 195:255 rw\nc 1:3 rwm\nb 195:0 r\n", [], id="no-GPU"),
        pytest.param("", [], id="empty"),
        pytest.param("c 195:0\nc 195:x rwm\nnonsense\n", [Place(UUIDS[1])], id="nonsense"),
    ],
)
def test_device_rules_name_gpus(text: str, places: list[Place]) -> None:
    assert places_of(parse_device_rules(text), NAMES) == places


@given(st.text(max_size=80) | st.from_regex(r"([abc] [0-9*]{1,5}:[0-9*]{1,4} rwm\n){1,4}", fullmatch=True))
def test_any_rules_are_read(text: str) -> None:
    assert isinstance(parse_device_rules(text), DeviceRules)


DOMAIN = """<domstatus state='running'><domain type='kvm' id='4'>
  <name>instance-00000001</name><uuid>57F2D45E-8ddf-4338-91df-62d0044ff1b5</uuid>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x15' slot='0x00' function='0x0'/></source>
      <address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'>
      <source><address uuid='C73F1FA6-489e-4834-9476-d70dabd98c40'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='usb'><source><address bus='1' device='3'/></source></hostdev>
    <hostdev mode='subsystem' type='pci'><source><address bus='x' slot='0x00'/></source></hostdev>
    <hostdev mode='subsystem' type='pci'/>
  </devices></domain></domstatus>"""


def test_a_domains_devices_are_the_hosts_not_the_guests() -> None:
    assert parse_devices(DOMAIN) == DomainDevices(
        "instance-00000001",
        "57f2d45e-8ddf-4338-91df-62d0044ff1b5",
        ("0000:15:00.0",),
        ("c73f1fa6-489e-4834-9476-d70dabd98c40",),
    )


@given(st.text(max_size=200) | st.integers(0, len(DOMAIN)).map(lambda end: DOMAIN[:end]))
def test_any_xml_is_read(text: str) -> None:
    found = parse_devices(text)

    assert found is None or isinstance(found, DomainDevices)


RESOURCES = """\
gpu = '3' , gpudevice = '1' , host = 'chifflot-1.lille.grid5000.fr' , cpuset = '0' , type = 'default'
gpu = '3' , gpudevice = '1' , host = 'chifflot-1.lille.grid5000.fr' , cpuset = '1'
gpu = '4' , gpudevice = '0' , host = 'chifflot-2.lille.grid5000.fr' , cpuset = '0'
gpu = '' , gpudevice = '' , host = 'chifflot-1.lille.grid5000.fr' , cpuset = '4'
"""


@pytest.mark.parametrize(
    ("names", "devices"),
    [
        (["chifflot-1"], (1,)),
        (["chifflot-2.lille.grid5000.fr"], (0,)),
        (["CHIFFLOT-1.lille"], (1,)),
        (["chifflot-3"], ()),
        ([], (1, 0)),
    ],
)
def test_oar_gives_minors_by_host(names: list[str], devices: tuple[int, ...]) -> None:
    assert parse_gpu_devices(RESOURCES, names) == devices


def test_two_addresses_are_not_one_host() -> None:
    assert parse_gpu_devices("gpudevice = '1' , network_address = '10.0.0.1'", ["10.0.0.2"]) == ()


@given(
    st.text(max_size=120)
    | st.from_regex(r"(gpudevice = '[0-9a-z]{0,9}' , host = '[a-z.]{0,5}'\n){1,3}", fullmatch=True)
)
def test_any_resources_are_read(text: str) -> None:
    assert all(number >= 0 for number in parse_gpu_devices(text, ["a"]))


CDI = """\
cdiVersion: 0.5.0
kind: k8s.gpu.nvidia.com/claim
devices:
- name: 9c1f-gpu-0-mig-19-6-1
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/x
      hostPath: /dev/nvidia-caps/nvidia-cap66
- name: 7
- nonsense
"""


def test_cdi_names_device_files(tmp_path: Path) -> None:
    (tmp_path / "k8s.gpu.nvidia.com-claim_9c1f.yaml").write_text(CDI)
    (tmp_path / "other.vendor-x.yaml").write_text(CDI)
    files = CdiFiles([tmp_path, tmp_path / "none"])

    found = files.device_files(["k8s.gpu.nvidia.com/claim=9c1f-gpu-0-mig-19-6-1", "nonsense"])

    assert found == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66")
    assert files.device_files(["k8s.gpu.nvidia.com/claim=other"]) == ()


@given(st.text(max_size=150), st.booleans())
def test_any_cdi_is_read(text: str, is_json: bool) -> None:
    assert isinstance(parse_cdi(text, is_json=is_json), dict)


@given(st.recursive(st.none() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.sampled_from(
    ["kind", "devices", "name", "containerEdits", "deviceNodes", "path"]), x), max_leaves=12))  # fmt: skip
def test_any_cdi_object_is_read(value: object) -> None:
    import json

    assert isinstance(parse_cdi(json.dumps(value), is_json=True), dict)


def test_capabilities_and_majors() -> None:
    text = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\nnonsense\n"

    assert parse_capabilities(text) == {12: (0, 1, None), 13: (0, 1, 0)}
    assert parse_majors(
        "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n\nBlock devices:\n  8 sd\n"
    ) == {
        "mem": 1,
        "nvidia": 195,
        "nvidia-caps": 234,
    }


@given(st.text(max_size=80))
def test_any_kernel_text_is_read(text: str) -> None:
    assert isinstance(parse_capabilities(text), dict)
    assert isinstance(parse_majors(text), dict)


def test_cards_and_partitions_are_found_behind_their_links(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    drm = tmp_path / "sys/class/drm"
    for card, device in (("card0", "0000:c5:00.0"), ("renderD129", "amdgpu_xcp_0"), ("card0-DP-1", "card0")):
        (drm / card).mkdir(parents=True)
        (drm / card / "device").symlink_to(f"../../../devices/{device}")
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, text in enumerate(("cpu_cores_count 64\n", "domain 0\nlocation_id 268485888\ndrm_render_minor 129\n")):
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(text)  # 268485888 = 1 << 28 | 0xc5 << 8

    facts = read_node_facts(proc.host)

    assert facts.cards == {"card0": "0000:c5:00.0"}
    assert facts.partitions == {0: ("0000:c5:00.0", 1)}


@pytest.mark.parametrize(
    ("links", "sees"),
    [
        pytest.param({}, True, id="not-told"),
        pytest.param({"1": "pid:[4026531836]"}, True, id="host"),
        pytest.param({"1": "pid:[4026532999]"}, False, id="case_gpu_54-other-namespace"),
        pytest.param({"self": "pid:[4026532999]"}, False, id="case_gpu_54-init-is-closed-to-us"),
    ],
)
def test_whether_process_numbers_are_the_hosts(tmp_path: Path, links: dict[str, str], sees: bool) -> None:
    proc = FakeProc(tmp_path)
    for pid, target in links.items():
        (tmp_path / "proc" / pid / "ns").mkdir(parents=True)
        (tmp_path / "proc" / pid / "ns" / "pid").symlink_to(target)

    assert sees_host_processes(proc.host) is sees
