"""GPUs among a node's resources: which resource names mean one, and of which model by the node's labels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_WHOLE = frozenset(
    {
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/pgpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "intel.com/gpu",
    }
)
_PRODUCTS = {
    "nvidia.com": ("nvidia.com/gpu.product",),
    "amd.com": ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "gpu.intel.com": ("gpu.intel.com/product",),
}
_COUNTED = re.compile(r"^beta\.amd\.com/gpu\.product-name\.(?P<model>.+)$")
_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>[0-9]+[gc]\.[0-9A-Za-z.+-]+)")
_SHARED = "-SHARED"
UNTOLD = "gpu"


@dataclass(frozen=True, slots=True)
class GpuType:
    """What a resource counts: `share` of a GPU of the type `name` for each one asked for."""

    name: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """What a node says of its GPUs: models by vendor, and among how many users one is shared by turns."""

    models: Mapping[str, str]
    replicas: int = 1
    is_shared: bool = False
    """Whether `nvidia.com/gpu` itself counts turns."""


NO_TYPES = GpuTypes({})


def gpu_types(labels: Mapping[str, str]) -> GpuTypes:
    """Return what a node's labels say of its GPUs."""
    models: dict[str, str] = {}
    for vendor, keys in _PRODUCTS.items():
        word = next((labels[key] for key in keys if labels.get(key)), "")
        if word:
            models[vendor] = word.removesuffix(_SHARED)
    if "amd.com" not in models:
        counted = [found["model"] for key in labels if (found := _COUNTED.match(key))]
        if len(counted) == 1:  # of two models we cannot tell which one a pod holds
            models["amd.com"] = counted[0]
    raw = labels.get("nvidia.com/gpu.replicas", "")
    replicas = int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 4 else 1
    return GpuTypes(models, max(1, replicas), labels.get("nvidia.com/gpu.product", "").endswith(_SHARED))


def gpu_type(resource: str, types: GpuTypes) -> GpuType | None:
    """Return what a resource counts; None where it is no GPU: memory, cores or per cents of one are not."""
    mig = _MIG.fullmatch(resource)
    if mig is not None:
        profile = mig["profile"].removesuffix(".shared")
        return GpuType(profile, 1.0 if profile == mig["profile"] else 1.0 / types.replicas)
    if resource not in _WHOLE:
        return None
    vendor = resource.partition("/")[0]
    is_turn = resource.endswith(".shared") or (resource == "nvidia.com/gpu" and types.is_shared)
    return GpuType(types.models.get(vendor, UNTOLD), 1.0 / types.replicas if is_turn else 1.0)
