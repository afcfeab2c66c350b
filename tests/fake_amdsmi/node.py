"""A node with GPUs of AMD that a fake amdsmi plays, read through the real child process."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.gpu_trees import Tree

from kwhere.devices.gpu import DeviceState, GpuSnapshot, Vendor
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch
from kwhere.graphics.readers import AMDSMI

PACKAGE = Path(__file__).parent / "package"
NOT_SUPPORTED, NO_PERMISSION, NOT_INITIALISED, DRIVER_NOT_LOADED = 2, 10, 32, 34
Answers = dict[str, Any]


def mi300x(bus: str = "05", *, serial: str = "0xF00DCAFE12345678", mode: str = "SPX", part: int = 0) -> Answers:
    """Return an MI300X, or one partition of it, as amdsmi 7 answers."""
    return {
        "amdsmi_get_gpu_device_bdf": f"0000:{bus}:00.0",
        "amdsmi_get_gpu_device_uuid": "8cff74a1-0000-1000-80f0-0dcafe123456",
        "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X", "device_id": "0x74a1",
                                     "asic_serial": serial, "num_compute_units": 304},
        "amdsmi_get_gpu_board_info": {"product_serial": "692231000123", "product_name": "N/A"},
        "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12"},
        "amdsmi_get_gpu_kfd_info": {"kfd_id": 5000, "node_id": 2, "current_partition_id": part},
        "amdsmi_get_gpu_compute_partition": mode,
        "amdsmi_get_gpu_memory_partition": "NPS1",
        "amdsmi_get_energy_count": {"energy_accumulator": {"ramp": [65_536_000, 65_536 * 700]},
                                    "counter_resolution": 15.3, "timestamp": {"ramp": [0, 1_000_000_000]}},
        "amdsmi_get_power_info": {"socket_power": 717, "current_socket_power": 717, "average_socket_power": "N/A"},
        "amdsmi_get_gpu_activity": {"gfx_activity": 88, "umc_activity": 40, "mm_activity": "N/A"},
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196_592, "vram_used": 285},
        "amdsmi_get_power_cap_info": {"power_cap": 750_000_000, "default_power_cap": 750_000_000,
                                      "max_power_cap": 750_000_000, "min_power_cap": 0},
        "amdsmi_get_temp_metric.EDGE.CURRENT": "N/A",
        "amdsmi_get_temp_metric.HOTSPOT.CURRENT": 62,
        "amdsmi_get_temp_metric.VRAM.CURRENT": 51,
        "amdsmi_get_clock_info.GFX": {"clk": 2100, "min_clk": 132, "max_clk": 2100},
        "amdsmi_get_clock_info.MEM": {"clk": 1300, "min_clk": 900, "max_clk": 1300},
        "amdsmi_get_pcie_info": {"pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000},
                                 "pcie_metric": {"pcie_width": 16, "pcie_speed": 32000, "pcie_replay_count": 4}},
        "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 3, "uncorrectable_count": 0, "deferred_count": 0},
        "amdsmi_get_gpu_process_list": [
            {"pid": 900, "name": "python3", "mem": 4096, "engine_usage": {"gfx": 0, "enc": 0},
             "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": 8 << 30}, "cu_occupancy": 304},
        ],
    }  # fmt: skip


def mi250x(bus: str, *, primary: bool, serial: str) -> Answers:
    """Return one die of an MI250X; the second one does not tell what both draw."""
    answers = mi300x(bus, serial=serial)
    answers["amdsmi_get_gpu_asic_info"] |= {"market_name": "AMD Instinct MI250X", "device_id": "0x7408"}
    silent = "N/A (Secondary die)"
    watts: object = 480 if primary else silent
    answers["amdsmi_get_power_info"] = {
        "socket_power": watts,
        "current_socket_power": "N/A",
        "average_socket_power": watts,
    }
    if not primary:
        answers["amdsmi_get_energy_count"] |= {"energy_accumulator": 0}
    del answers["amdsmi_get_gpu_compute_partition"]
    return answers


@dataclass
class AmdNode:
    """Fake GPUs and what the agent sees of them. Close it."""

    directory: Path
    patch: pytest.MonkeyPatch
    gpus: list[Answers] = field(default_factory=list)
    tree: Tree = field(default_factory=Tree)
    more: Answers = field(default_factory=dict)
    path: str = str(PACKAGE)
    watch: GpuWatch = field(init=False)

    def __post_init__(self) -> None:
        self.patch.setenv("FAKE_AMDSMI", str(self.directory / "amdsmi.json"))
        self.write()
        places = (str(self.directory / "proc"), str(self.directory / "sys"))
        self.watch = GpuWatch(
            Vendor.AMD,
            (sys.executable, "-m", "kwhere.graphics.child", AMDSMI, *places, self.path),
            GpuSettings(answer_seconds=0.5, interval_seconds=0.1, medium_seconds=1, slow_seconds=1),
            source=AMDSMI,
        )

    def write(self) -> None:
        """Let the package play the GPUs as they are now."""
        (self.directory / "amdsmi.json").write_text(json.dumps({"gpus": self.gpus, **self.more}))
        self.tree.write(self.directory)

    def poll(self, timeout_seconds: float = 30.0) -> GpuSnapshot:
        """Return everything, asked once."""
        return self.watch.poll(timeout_seconds)

    def device(self, index: int = 0) -> DeviceState:
        """Return one device, asked once."""
        return self.poll().devices[index]
