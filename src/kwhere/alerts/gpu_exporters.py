"""What exporters of GPUs call the same things: names, units, and whether a value is an instance's own.

DCGM renamed its fields in 4.6 and kept the old names; dcgm-exporter 1.x wrote them small. Under MIG dcgm-exporter shows
no whole GPU any more, and repeats what only the GPU has (power, energy, temperature, clocks) on each instance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

MEBI = float(2**20)


class Scope(Enum):
    """Whose a value is where a GPU is divided."""

    DEVICE = auto()
    """The GPU's; on instances it is repeated."""
    UNDIVIDED = auto()
    """Known of whole GPUs only; what an instance shows is no value."""
    PLACE = auto()
    """An instance's own; a divided GPU's is made of them."""


class Fold(Enum):
    """How a GPU's value is made of its instances'."""

    SUM = auto()
    """Added: bytes."""
    SHARE = auto()
    """Weighed by the instances' shares of the GPU: ratios."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One recorded series, `gpu:<name>`, and `gpu_instance:<name>` where instances have one of their own."""

    name: str
    scope: Scope
    text: str
    fold: Fold | None = None
    largest: float | None = None
    """More is no value: it is cut off there."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """An exporter's labels; a label that is empty it does not have."""

    name: str
    uuid: str
    instance: str = ""
    """Label with the number of the GPU instance; series of whole GPUs lack it."""
    profile: str = ""
    model: str = ""
    nodes: Sequence[str] = ()
    """Labels that may name the node, where `node` does not."""
    uuid_prefix: str = ""
    """What its uuids lack."""


@dataclass(frozen=True, slots=True)
class Named:
    """A metric of an exporter: `matchers` pick its series, `factor` makes it base units."""

    metric: str
    factor: float = 1.0
    matchers: str = ""
    is_energy_counter: bool = False
    """Its rate is the power."""


KWHERE, DCGM, NVIDIA_SMI, NVIDIA_GPU, AMD = "kwhere", "dcgm", "nvidia_smi", "nvidia_gpu", "amd"
GIVEN = "given"
"""The exporter whose names an operator gives."""

EXPORTERS: Mapping[str, Exporter] = {
    each.name: each
    for each in (
        Exporter(KWHERE, "uuid"),
        Exporter(GIVEN, "uuid", nodes=("instance",)),
        Exporter(DCGM, "UUID", "GPU_I_ID", "GPU_I_PROFILE", "modelName", ("Hostname", "hostname", "instance")),
        Exporter(NVIDIA_SMI, "uuid", nodes=("instance",), uuid_prefix="GPU-"),
        Exporter(NVIDIA_GPU, "uuid", nodes=("instance",)),
        Exporter(AMD, "gpu_uuid", nodes=("hostname", "instance")),
    )
}
"""By preference: where several show a GPU, the first one that has a quantity speaks."""

QUANTITIES: Sequence[Quantity] = (
    Quantity("power_watts", Scope.DEVICE, "Power of the whole GPU, once."),
    Quantity("temperature_celsius", Scope.DEVICE, "Temperature of the chip."),
    Quantity("sm_clock_hertz", Scope.DEVICE, "Clock of the streaming multiprocessors."),
    Quantity(
        "kernel_active_ratio",
        Scope.UNDIVIDED,
        "Share of time with at least one kernel running (nvidia-smi's GPU-Util), however few SMs it uses.",
        largest=1.0,
    ),
    Quantity("memory_busy_ratio", Scope.UNDIVIDED, "Share of time in which memory was read or written.", largest=1.0),
    Quantity("memory_used_bytes", Scope.PLACE, "Memory in use.", Fold.SUM),
    Quantity(
        "engine_active_ratio", Scope.PLACE, "Share of time in which the compute engine was busy.", Fold.SHARE, 1.0
    ),
    Quantity("sm_active_ratio", Scope.PLACE, "Share of SMs with a warp, mean over time.", Fold.SHARE, 1.0),
    Quantity("sm_occupancy_ratio", Scope.PLACE, "Warps of those that could be, mean over time.", Fold.SHARE, 1.0),
    Quantity("tensor_active_ratio", Scope.PLACE, "Share of cycles with tensor cores at work.", Fold.SHARE, 1.0),
    Quantity("dram_active_ratio", Scope.PLACE, "Share of cycles with traffic to memory.", Fold.SHARE, 1.0),
)


def _own(metric: str, matchers: str = "") -> Mapping[str, Sequence[Named]]:
    return {KWHERE: (Named(metric, matchers=matchers),)}


def _activity(part: str, *dcgm: str) -> Mapping[str, Sequence[Named]]:
    return {
        **_own("kwhere_gpu_activity_ratio", f'part="{part}"'),
        DCGM: tuple(Named(name) for name in dcgm),
    }


def _amd(factor: float, *names: str) -> tuple[Named, ...]:
    return tuple(Named(prefix + name, factor) for name in names for prefix in ("", "amd_"))


NAMES: Mapping[str, Mapping[str, Sequence[Named]]] = {
    "power_watts": {
        **_own("kwhere_gpu_power_watts"),
        DCGM: (
            Named("DCGM_FI_DEV_POWER_USAGE"),
            Named("DCGM_FI_DEV_BOARD_POWER_WATTS"),
            Named("DCGM_FI_DEV_POWER_USAGE_INSTANT"),
            Named("DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"),
            Named("dcgm_power_usage"),
            Named("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e-3, is_energy_counter=True),
            Named("dcgm_total_energy_consumption", 1e-3, is_energy_counter=True),
        ),
        NVIDIA_SMI: (
            Named("nvidia_smi_power_draw_watts"),
            Named("nvidia_smi_power_draw_average_watts"),
            Named("nvidia_smi_power_draw_instant_watts"),
        ),
        NVIDIA_GPU: (Named("nvidia_gpu_power_usage_milliwatts", 1e-3),),
        AMD: _amd(1, "gpu_package_power", "gpu_average_package_power", "gpu_power_usage"),
    },
    "temperature_celsius": {
        **_own("kwhere_gpu_temperature_celsius"),
        DCGM: (
            Named("DCGM_FI_DEV_GPU_TEMP"),
            Named("DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
            Named("dcgm_gpu_temp"),
        ),
        NVIDIA_SMI: (Named("nvidia_smi_temperature_gpu"),),
        NVIDIA_GPU: (Named("nvidia_gpu_temperature_celsius"),),
        AMD: _amd(1, "gpu_junction_temperature", "gpu_edge_temperature"),
    },
    "sm_clock_hertz": {
        **_own("kwhere_gpu_sm_clock_hertz"),
        DCGM: (Named("DCGM_FI_DEV_SM_CLOCK", 1e6), Named("dcgm_sm_clock", 1e6)),
        NVIDIA_SMI: (Named("nvidia_smi_clocks_current_sm_clock_hz"), Named("nvidia_smi_clocks_sm_clock_hz")),
    },
    "kernel_active_ratio": {
        **_own("kwhere_gpu_utilization_ratio"),
        # GPU_UTIL_RATIO is GPU_UTIL by its new name, still in percent.
        DCGM: (
            Named("DCGM_FI_DEV_GPU_UTIL", 1e-2),
            Named("DCGM_FI_DEV_GPU_UTIL_RATIO", 1e-2),
            Named("dcgm_gpu_utilization", 1e-2),
        ),
        NVIDIA_SMI: (Named("nvidia_smi_utilization_gpu_ratio"),),
        NVIDIA_GPU: (Named("nvidia_gpu_duty_cycle", 1e-2),),
        AMD: _amd(1e-2, "gpu_gfx_activity"),
    },
    "memory_busy_ratio": {
        **_own("kwhere_gpu_memory_utilization_ratio"),
        DCGM: (Named("DCGM_FI_DEV_MEM_COPY_UTIL", 1e-2), Named("dcgm_mem_copy_utilization", 1e-2)),
        NVIDIA_SMI: (Named("nvidia_smi_utilization_memory_ratio"),),
        AMD: _amd(1e-2, "gpu_umc_activity"),
    },
    "memory_used_bytes": {
        **_own("kwhere_gpu_memory_used_bytes"),
        DCGM: (Named("DCGM_FI_DEV_FB_USED", MEBI), Named("dcgm_fb_used", MEBI)),
        NVIDIA_SMI: (Named("nvidia_smi_memory_used_bytes"),),
        NVIDIA_GPU: (Named("nvidia_gpu_memory_used_bytes"),),
        AMD: _amd(MEBI, "gpu_used_vram"),
    },
    "engine_active_ratio": _activity(
        "graphics",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "dcgm_fi_prof_gr_engine_active",
    ),
    "sm_active_ratio": _activity("sm", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"),
    "sm_occupancy_ratio": _activity("sm_occupancy", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"),
    "tensor_active_ratio": _activity(
        "tensor",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "dcgm_fi_prof_pipe_tensor_active",
    ),
    "dram_active_ratio": _activity(
        "dram", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dcgm_fi_prof_dram_active"
    ),
}
"""By quantity and exporter, the best name first."""
