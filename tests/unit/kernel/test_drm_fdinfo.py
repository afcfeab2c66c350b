"""fdinfo of DRM files, as amdgpu, i915 and xe write it, and as nobody writes it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_trees import Tree

from kwhere.kernel.drm_fdinfo import DrmClient, parse_fdinfo, scan_clients
from kwhere.kernel.hostfs import HostFS

AMDGPU = """pos:\t0
flags:\t02100002
mnt_id:\t26
ino:\t1058
drm-driver:\tamdgpu
drm-client-id:\t42
drm-pdev:\t0000:03:00.0
drm-memory-vram:\t1024 KiB
drm-memory-gtt: \t12 KiB
drm-engine-gfx:\t5000000000 ns
drm-engine-compute:\t70000 ns
"""
I915 = """drm-driver: i915
drm-pdev: 0000:4D:00.0
drm-client-id: 7
drm-engine-render: 25662044495 ns
drm-engine-video: 0 ns
drm-engine-capacity-video: 2
drm-engine-compute: 1000 ns
drm-total-local0: 2 MiB
drm-total-system0: 100 KiB
drm-resident-local0: 0
"""
XE = """drm-driver:\txe
drm-client-id:\t16
drm-pdev:\t0000:03:00.0
drm-total-vram0:\t4096
drm-cycles-rcs:\t28257900
drm-total-cycles-rcs:\t7655183225
drm-cycles-ccs:\t0
drm-total-cycles-ccs:\t7655183225
drm-engine-capacity-ccs:\t4
"""
OLD = """pdev:\t0000:0b:00.0
pasid:\t32771
drm-client-id: 3
vram mem:\t2048 kB
gtt mem:\t16 kB
gfx0:\t12.3%
"""


def test_what_each_driver_writes() -> None:
    assert parse_fdinfo(AMDGPU) == DrmClient(
        "0000:03:00.0",
        42,
        "amdgpu",
        engine_ns={"gfx": 5_000_000_000, "compute": 70_000},
        memory_bytes={"vram": 1 << 20, "gtt": 12 << 10},
    )
    assert parse_fdinfo(I915) == DrmClient(
        "0000:4d:00.0",
        7,
        "i915",
        engine_ns={"render": 25_662_044_495, "video": 0, "compute": 1000},
        capacity={"video": 2},
        memory_bytes={"local0": 2 << 20, "system0": 100 << 10},
    )
    assert parse_fdinfo(XE) == DrmClient(
        "0000:03:00.0",
        16,
        "xe",
        cycles={"rcs": 28_257_900, "ccs": 0},
        total_cycles={"rcs": 7_655_183_225, "ccs": 7_655_183_225},
        capacity={"ccs": 4},
        memory_bytes={"vram0": 4096},
    )
    assert parse_fdinfo(OLD) == DrmClient("0000:0b:00.0", 3, memory_bytes={"vram": 2 << 20, "gtt": 16 << 10})


@pytest.mark.parametrize(
    "text", ["", "pos:\t0\nflags:\t0\n", "drm-driver: i915\n", "drm-client-id: 7\n", AMDGPU.replace("42", "many")]
)
def test_other_files_are_no_clients(text: str) -> None:
    assert parse_fdinfo(text) is None


def test_a_line_that_is_not_understood_is_left_out() -> None:
    found = parse_fdinfo(AMDGPU + "drm-engine-vcn: soon\ndrm-memory-visible-vram: -5 KiB\ndrm-shared-vram: 7 KiB\n")

    assert found is not None
    assert found.engine_ns == {"gfx": 5_000_000_000, "compute": 70_000}
    assert found.memory_bytes == {"vram": 1 << 20, "gtt": 12 << 10}


@given(st.binary(max_size=400) | st.lists(st.sampled_from(AMDGPU.splitlines() + XE.splitlines()), max_size=30).map(
    lambda lines: "\n".join(lines).encode()))  # fmt: skip
def test_any_bytes_are_a_client_or_none(data: bytes) -> None:
    found = parse_fdinfo(data.decode(errors="replace"))

    assert found is None or all(value >= 0 for value in (*found.engine_ns.values(), *found.memory_bytes.values()))


def test_only_files_of_graphics_cards_are_opened(tmp_path: Path) -> None:
    tree = Tree()
    tree.client(100, 4, 0, AMDGPU)
    tree.links["proc/100/fd/5"] = "socket:[4711]"
    tree.files["proc/100/fdinfo/5"] = I915
    tree.write(tmp_path)
    fs = HostFS(tmp_path / "proc", tmp_path / "sys")

    assert [client.client for client in scan_clients(fs, 100)] == [42]
    assert list(scan_clients(fs, 101)) == []
