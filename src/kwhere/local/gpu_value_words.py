"""What numbers of NVIDIA's library mean: its enumerations in words, as nvml.h has them."""

from collections.abc import Callable, Mapping

from kwhere.devices.gpu_fields import GpuField

_BRANDS: Mapping[str, str] = {
    "1": "Quadro", "2": "Tesla", "3": "NVS", "4": "GRID", "5": "GeForce", "6": "Titan", "7": "vApps", "8": "vPC",
    "9": "vCS", "10": "RTX vWS", "11": "Cloud Gaming", "12": "Quadro RTX", "13": "NVIDIA RTX", "14": "NVIDIA",
    "15": "GeForce RTX", "16": "Titan RTX", "17": "DLA", "18": "vGameDev", "19": "NPU",
}  # fmt: skip
_ARCHITECTURES: Mapping[str, str] = {
    "2": "Kepler", "3": "Maxwell", "4": "Pascal", "5": "Volta", "6": "Turing", "7": "Ampere", "8": "Ada", "9": "Hopper",
    "10": "Blackwell", "11": "DLA", "12": "DLA 2", "13": "Rubin", "15": "NPU 3",
}  # fmt: skip
_VIRTUALIZATION: Mapping[str, str] = {
    "0": "none", "1": "passed through", "2": "vGPU guest", "3": "vGPU host", "4": "vGPU host by SR-IOV",
}  # fmt: skip
_FACTS: Mapping[str, Mapping[str, str]] = {
    "brand": _BRANDS,
    "architecture": _ARCHITECTURES,
    "virtualization": _VIRTUALIZATION,
}
_REASONS: Mapping[int, str] = {
    0x1: "idle", 0x2: "set clocks", 0x4: "power cap", 0x8: "hardware slow-down", 0x10: "sync boost",
    0x20: "heat", 0x40: "heat (hardware)", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
"""`nvmlClocksEventReason…`."""
_ACTIONS: Mapping[int, str] = {
    0: "none", 1: "reset the GPU", 2: "reboot the node", 3: "drain P2P", 4: "drain and reset", 5: "recover IMEX domain",
}  # fmt: skip
_FASTEST, _SLOWEST = 0, 15


def fact_words(name: str, value: str) -> str:
    """Return a fact as a person reads it, `Hopper (9)`; what has no word stays as it is."""
    word = _FACTS.get(name, {}).get(value)
    return value if word is None else f"{word} ({value})"


def value_words(name: GpuField, value: int | float) -> str:
    """Return what a number means where it is no amount; empty for amounts, and for numbers that nobody explained."""
    say = _VALUES.get(name)
    return say(int(value)) if say is not None else ""


def _state(number: int) -> str:
    ends = {_FASTEST: ", fastest", _SLOWEST: ", slowest"}
    return f"P{number}{ends.get(number, '')}" if _FASTEST <= number <= _SLOWEST else ""


def _reasons(mask: int) -> str:
    return ", ".join(word for bit, word in _REASONS.items() if mask & bit) or "none"


def _switch(number: int) -> str:
    return {0: "off", 1: "on"}.get(number, "")


def _truth(number: int) -> str:
    return {0: "no", 1: "yes"}.get(number, "")


_VALUES: Mapping[GpuField, Callable[[int], str]] = {
    GpuField.PSTATE: _state,
    GpuField.CLOCK_EVENT_REASONS: _reasons,
    GpuField.RECOVERY_ACTION: lambda number: _ACTIONS.get(number, ""),
    GpuField.ECC_MODE: _switch,
    GpuField.ECC_PENDING: _switch,
    GpuField.MIG_MODE: _switch,
    GpuField.REMAPPED_PENDING: _truth,
    GpuField.REMAPPED_FAILURE: _truth,
    GpuField.RETIRED_PENDING: _truth,
    GpuField.VGPU_LICENSE_STATUS: _truth,
}
