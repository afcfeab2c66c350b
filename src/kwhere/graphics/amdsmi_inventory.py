"""Who AMD's GPUs are, by amdsmi: each package once, with its partitions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kwhere.devices.gpu import GpuDevice, GpuInstance, Vendor, pci_address
from kwhere.graphics.amd_energy import has_two_dies
from kwhere.graphics.amd_inventory import AmdCard, carrier_of, package_of
from kwhere.graphics.amdsmi_calls import Handle, Module, call, entry, first_number, hexadecimal, text
from kwhere.graphics.models import model_of
from kwhere.kernel.amdgpu import parse_unique_id

POWERS = ("current_socket_power", "average_socket_power", "socket_power")
"""MI300 answers under the first, MI200 under the second; the third is the one of the two, in newer libraries."""


@dataclass(frozen=True, slots=True)
class SmiGpu:
    """A package: the handle that measures it, those of its partitions, and the driver's files where they are seen."""

    device: GpuDevice
    device_id: int
    handle: Handle
    parts: tuple[Handle, ...] = ()
    """By partition, in the order of the device's instances."""
    card: AmdCard | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    handle: Handle
    pci: str
    partition: int


def find_by_amdsmi(module: Module, handles: Sequence[Handle], cards: Sequence[AmdCard]) -> list[SmiGpu]:
    """Return the packages by PCI address. Raises Reopen."""
    packages: dict[str, list[_Seen]] = {}
    for place, handle in enumerate(handles):
        pci = pci_address(str(text({"bdf": call(module, "amdsmi_get_gpu_device_bdf", handle)}, "bdf") or f"gpu{place}"))
        partition = entry(call(module, "amdsmi_get_gpu_kfd_info", handle), "current_partition_id") or 0
        packages.setdefault(package_of(pci), []).append(_Seen(handle, pci, partition))
    by_package = {package_of(card.card.pci): card for card in cards}
    found: list[SmiGpu] = []
    taken: set[str] = set()
    for index, package in enumerate(sorted(packages)):
        seen = sorted(packages[package], key=lambda one: (one.partition, one.pci))
        made = _describe(module, seen, index, by_package.get(package), taken)
        taken.add(made.device.uuid)
        found.append(made)
    return _with_carriers(module, found)


def _describe(module: Module, seen: Sequence[_Seen], index: int, card: AmdCard | None, taken: set[str]) -> SmiGpu:
    first = seen[0]
    asic = call(module, "amdsmi_get_gpu_asic_info", first.handle)
    board = call(module, "amdsmi_get_gpu_board_info", first.handle)
    unique = parse_unique_id(text(asic, "asic_serial") or "")
    by_file = card.device.facts.get("unique_id") if card is not None else None
    unique = unique or by_file
    device_id = hexadecimal(text(asic, "device_id")) or entry(asic, "device_id") or 0
    uuid = unique if unique is not None and unique not in taken else f"amd-{first.pci}"
    mode = compute_mode(module, first.handle)
    memory_mode = _mode(module, "amdsmi_get_gpu_memory_partition", first.handle)
    instances = _instances(uuid, seen, f"{mode}/{memory_mode}".lower().strip("/"), card)
    facts = {
        **(dict(card.device.facts) if card is not None else {}),
        "unique_id": unique,
        "amdsmi_uuid": text({"uuid": call(module, "amdsmi_get_gpu_device_uuid", first.handle)}, "uuid"),
        "vbios": text(call(module, "amdsmi_get_gpu_vbios_info", first.handle), "version"),
        "series": text(asic, "market_name"),
        "compute_partition": mode or None,
        "memory_partition": memory_mode or None,
    }
    device = GpuDevice(
        uuid=uuid,
        index=index,
        vendor=Vendor.AMD,
        model=text(asic, "market_name") or text(board, "product_name") or model_of(Vendor.AMD, device_id),
        minor=card.device.minor if card is not None else None,
        pci=first.pci,
        serial=text(board, "product_serial"),
        mig=bool(instances) if mode or instances else None,
        mig_pending=bool(instances) if mode or instances else None,
        compute_slices=max(1, len(instances)),
        instances=instances,
        facts={name: value for name, value in facts.items() if value},
    )
    return SmiGpu(device, device_id, first.handle, tuple(one.handle for one in seen) if instances else (), card)


def compute_mode(module: Module, handle: Handle) -> str:
    """Return how a package is divided, `SPX` or `CPX`; empty where it cannot be. Raises Reopen."""
    return _mode(module, "amdsmi_get_gpu_compute_partition", handle)


def _mode(module: Module, name: str, handle: Handle) -> str:
    return (text({"mode": call(module, name, handle)}, "mode") or "").upper()


def _instances(uuid: str, seen: Sequence[_Seen], profile: str, card: AmdCard | None) -> tuple[GpuInstance, ...]:
    """Return a package's partitions: it has several handles then."""
    if len(seen) < 2:
        return ()
    by_file = card.device.instances if card is not None and len(card.device.instances) == len(seen) else ()
    unique = len({one.partition for one in seen}) == len(seen)
    return tuple(
        GpuInstance(
            uuid=f"{uuid}-{number}",
            name=f"partition {number} ({profile})",
            profile=profile,
            gpu_instance=number,
            compute_instance=0,
            compute_slices=1,
            multiprocessors=by_file[place].multiprocessors if by_file else None,
            memory_bytes=by_file[place].memory_bytes if by_file else None,
        )
        for place, one in enumerate(seen)
        for number in (one.partition if unique else place,)
    )


def _with_carriers(module: Module, gpus: Sequence[SmiGpu]) -> list[SmiGpu]:
    two = [has_two_dies(gpu.device_id) or "MI250" in gpu.device.model for gpu in gpus]
    silent = [
        pair and not first_number(call(module, "amdsmi_get_power_info", gpu.handle), POWERS)
        for gpu, pair in zip(gpus, two, strict=True)
    ]
    devices = [gpu.device for gpu in gpus]
    measured = [pair and not quiet for pair, quiet in zip(two, silent, strict=True)]
    return [
        replace(gpu, device=replace(gpu.device, carrier=carrier_of(devices, measured, place))) if silent[place] else gpu
        for place, gpu in enumerate(gpus)
    ]
