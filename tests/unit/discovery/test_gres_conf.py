import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, mig_uuid

from kwhere.devices.gpu_mapping_settings import SlurmOrder
from kwhere.discovery.gpu_names import GpuNames, NodeFacts, Place
from kwhere.discovery.gres_conf import GresKind, GresLine, expand, gres_bits, parse_gres_conf

GRES = """\
# our nodes
AutoDetect=off
NodeName=gpu[01-02] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31  # four
nodename=gpu03 name=GPU file=/dev/nvidia0,/dev/nvidia1
NodeName=gpu[01-02] Name=shard Count=1K
Name=mps Count=400 File=/dev/nvidia0
Name=nic File=/dev/knem
NodeName=gpu04 Name=gpu \\
  File=/dev/nvidia7
"""


def test_lines_about_gpus_of_this_node() -> None:
    assert parse_gres_conf(GRES, {"gpu02"}) == (
        GresLine(GresKind.GPU, tuple(f"/dev/nvidia{n}" for n in range(4))),
        GresLine(GresKind.SHARD, count=1024),
        GresLine(GresKind.MPS, ("/dev/nvidia0",), count=400),
    )


def test_case_gpu_65_the_node_goes_by_slurms_name_not_the_hosts() -> None:
    lines = parse_gres_conf(GRES, {"g843068", "gpu03"})

    assert lines[0].files == ("/dev/nvidia0", "/dev/nvidia1")


def test_a_line_goes_on_after_a_backslash() -> None:
    assert parse_gres_conf(GRES, {"gpu04"})[-1].files == ("/dev/nvidia7",)


def test_instances_are_given_by_several_files() -> None:
    text = "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap66,/dev/nvidia-caps/nvidia-cap67\n" * 2
    text = text.replace("cap66,/dev/nvidia-caps/nvidia-cap67\nN", "cap12,/dev/nvidia-caps/nvidia-cap13\nN", 1)
    facts = NodeFacts(capabilities={66: (0, 7, None), 67: (0, 7, 0), 12: (0, 1, None), 13: (0, 1, 0)})
    names = GpuNames([gpu(0, instances=[(7, 0, "1g.5gb"), (1, 0, "3g.20gb")])], facts)

    bits = gres_bits(names, parse_gres_conf(text), SlurmOrder.AUTO)

    assert bits.order == ((Place(UUIDS[0], mig_uuid(0, 1)),), (Place(UUIDS[0], mig_uuid(0, 0)),))


def test_files_count_by_minor_whatever_their_order() -> None:
    names = GpuNames([gpu(0), gpu(1)])
    lines = parse_gres_conf("Name=gpu File=/dev/nvidia1\nName=gpu File=/dev/nvidia0\n")

    assert gres_bits(names, lines, SlurmOrder.AUTO).order == ((Place(UUIDS[0]),), (Place(UUIDS[1]),))


def test_a_gpu_that_is_gone_keeps_its_number() -> None:
    names = GpuNames([gpu(0), gpu(2)])
    lines = parse_gres_conf("Name=gpu File=/dev/nvidia[0-2]")

    assert gres_bits(names, lines, SlurmOrder.AUTO).order == ((Place(UUIDS[0]),), (), (Place(UUIDS[2]),))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tux[00-02],login", ["tux00", "tux01", "tux02", "login"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("one", ["one"]),
        ("", []),
        ("a[3-1]", []),
        ("a[1-", ["a[1-"]),
        ("a[x-y]", ["ax-y"]),
    ],
)
def test_lists_of_names(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_a_list_that_names_the_world_is_cut() -> None:
    assert len(expand("a[0-999999999]b[0-99999]")) <= 4096


@given(st.text(max_size=200) | st.from_regex(r"(Name=(gpu|shard) (File|Count|NodeName)=[a-z/\[\],0-9-]{0,30}\n){1,3}"))
def test_any_text_is_read(text: str) -> None:
    names = GpuNames([gpu(0), gpu(1)])

    bits = gres_bits(names, parse_gres_conf(text, {"n1"}), SlurmOrder.AUTO)

    assert all(place.device in UUIDS for places in bits.order for place in places)
