"""By what AMD's and Intel's GPUs are read on this node. The names are those of their energy sources."""

import importlib.util
from pathlib import Path

AMDSMI, AMDGPU, INTEL_GPU = "amdsmi", "amdgpu", "intel_gpu"


def has_amdsmi(path: str) -> bool:
    """Return whether AMD's Python package is here, in `path` or where this Python finds it. It is not imported."""
    if not path:
        return False
    return (Path(path) / AMDSMI / "__init__.py").is_file() or importlib.util.find_spec(AMDSMI) is not None
