"""Who a GPU is and how it is divided, by NVML."""

import re
from collections.abc import Iterator

import pynvml

from kwhere.devices.gpu import GpuDevice, GpuInstance, Vendor
from kwhere.devices.gpu_fields import Absence
from kwhere.devices.nvml_calls import Handle, attempt, clean_text, text

_PROFILE = re.compile(r" MIG ((?:\d+c\.)?(\d+)g\.\S+)")
_SLICES_OF_A_WHOLE = 7
_SLICES_OF_AN_A30 = 4


def describe(handle: Handle, index: int) -> GpuDevice:
    """Return everything that identifies a device. Raises DeviceDown, Reopen."""
    mode = attempt(pynvml.nvmlDeviceGetMigMode, handle)
    minor = attempt(pynvml.nvmlDeviceGetMinorNumber, handle)
    pci = attempt(pynvml.nvmlDeviceGetPciInfo, handle)
    model = text(pynvml.nvmlDeviceGetName, handle) or "NVIDIA GPU"
    divisible = not isinstance(mode, Absence)
    bus = "" if isinstance(pci, Absence) else clean_text(pci.busId) or ""
    return GpuDevice(
        uuid=text(pynvml.nvmlDeviceGetUUID, handle) or f"GPU-{bus or index}",
        index=index,
        vendor=Vendor.NVIDIA,
        model=model,
        minor=None if isinstance(minor, Absence) else minor,
        pci=bus,
        serial=text(pynvml.nvmlDeviceGetSerial, handle),
        mig=bool(mode[0]) if divisible else None,
        mig_pending=bool(mode[1]) if divisible else None,
        compute_slices=_slices(handle, model) if divisible else 1,
        instances=tuple(instance for _, instance in instances(handle)) if divisible and mode[0] else (),
        facts=_facts(handle),
    )


def instances(handle: Handle) -> Iterator[tuple[Handle, GpuInstance]]:
    """Yield the MIG devices with their handles, holes left out."""
    slots = attempt(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    for slot in range(0 if isinstance(slots, Absence) else slots):
        found = attempt(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
        if isinstance(found, Absence):
            continue
        instance = _instance(found)
        if instance is not None:
            yield found, instance


def layout(handle: Handle) -> tuple[str, ...]:
    """Return the UUIDs of the MIG devices there are: another tuple is another layout."""
    return tuple(instance.uuid for _, instance in instances(handle))


def _instance(handle: Handle) -> GpuInstance | None:
    uuid = text(pynvml.nvmlDeviceGetUUID, handle)
    gpu_instance = attempt(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    compute_instance = attempt(pynvml.nvmlDeviceGetComputeInstanceId, handle)
    if uuid is None or isinstance(gpu_instance, Absence) or isinstance(compute_instance, Absence):
        return None  # it went while it was looked at
    name = text(pynvml.nvmlDeviceGetName, handle) or ""
    attributes = attempt(pynvml.nvmlDeviceGetAttributes, handle)
    known = None if isinstance(attributes, Absence) else attributes
    profile = _PROFILE.search(name)
    slices = known.computeInstanceSliceCount if known is not None else 0
    return GpuInstance(
        uuid=uuid,
        name=name,
        profile=profile[1] if profile else "",
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
        compute_slices=slices or _slices_of_profile(name),
        multiprocessors=known.multiprocessorCount if known is not None else None,
        memory_bytes=known.memorySizeMB << 20 if known is not None else None,
    )


def _slices_of_profile(name: str) -> int:
    """Return compute slices by the profile's name: `1c.3g.20gb` has 1, `3g.20gb` has 3."""
    found = _PROFILE.search(name)
    if found is None:
        return 1
    first = found[1].split(".")[0]
    return int(first.removesuffix("c")) if first.endswith("c") else int(found[2])


def _slices(handle: Handle, model: str) -> int:
    """Return compute slices: as many as instances fit (RTX PRO 6000: 4); the driver says 0 while MIG is off."""
    most = attempt(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    if not isinstance(most, Absence) and most:
        return int(most)
    return _SLICES_OF_AN_A30 if re.search(r"\bA30\b", model) else _SLICES_OF_A_WHOLE


def _facts(handle: Handle) -> dict[str, str]:
    found = {
        "vbios": text(pynvml.nvmlDeviceGetVbiosVersion, handle),
        "inforom_image": text(pynvml.nvmlDeviceGetInforomImageVersion, handle),
        "inforom_oem": text(pynvml.nvmlDeviceGetInforomVersion, handle, pynvml.NVML_INFOROM_OEM),
        "inforom_ecc": text(pynvml.nvmlDeviceGetInforomVersion, handle, pynvml.NVML_INFOROM_ECC),
        "inforom_power": text(pynvml.nvmlDeviceGetInforomVersion, handle, pynvml.NVML_INFOROM_POWER),
    }
    for name, call in (
        ("brand", pynvml.nvmlDeviceGetBrand),
        ("architecture", pynvml.nvmlDeviceGetArchitecture),
        ("virtualization", pynvml.nvmlDeviceGetVirtualizationMode),
    ):
        number = attempt(call, handle)
        found[name] = None if isinstance(number, Absence) else str(number)
    return {name: value for name, value in found.items() if value is not None}
