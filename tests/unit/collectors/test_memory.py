from pathlib import Path

from tests.recorded_hosts import open_host, said

from kwhere.collectors.memory import plugin
from kwhere.kernel.hostfs import HostFS


def test_memory_in_bytes() -> None:
    found = said(plugin, open_host("vm-no-meter"))

    assert found["kwhere_node_memory_total_bytes", ()] == 8_388_608 * 1024
    assert found["kwhere_node_memory_free_bytes", ()] == 4_194_304 * 1024
    assert found["kwhere_node_memory_available_bytes", ()] == 6_291_456 * 1024
    assert ("kwhere_node_memory_huge_total_bytes", ()) not in found


def test_what_the_kernel_does_not_say_is_left_out_and_huge_pages_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 8 kB\nHugePages_Total: 4\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")

    found = said(plugin, HostFS(tmp_path, tmp_path, tmp_path))

    assert found == {
        ("kwhere_node_memory_total_bytes", ()): 8192,
        ("kwhere_node_memory_huge_total_bytes", ()): 8_388_608,
        ("kwhere_node_memory_huge_free_bytes", ()): 0,
    }
