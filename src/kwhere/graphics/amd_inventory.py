"""Who AMD's GPUs are, by sysfs: identity, partitions, and which die of a package measures the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.gpu import GpuDevice, GpuInstance, Vendor
from kwhere.graphics.amd_energy import has_two_dies
from kwhere.graphics.models import model_of
from kwhere.kernel import pci
from kwhere.kernel.amdgpu import DRIVER, parse_unique_id, partition_count
from kwhere.kernel.amdgpu_metrics import GpuMetrics, parse_gpu_metrics
from kwhere.kernel.drm import DrmCard, find_cards, hwmon_directories, number_of, word_of
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.kfd import KfdNode, read_nodes

_FIRST_RENDER = 128


@dataclass(frozen=True, slots=True)
class AmdCard:
    """A GPU, where its files are, and its compute nodes by partition."""

    device: GpuDevice
    card: DrmCard
    hwmon: str
    """Directory of its sensors; empty where it has none."""
    nodes: tuple[KfdNode, ...] = ()

    @property
    def parts(self) -> tuple[tuple[KfdNode, GpuInstance | None], ...]:
        """Return each compute node with the partition that it is; None: the whole device, or nobody knows which."""
        instances = self.device.instances
        known = len(instances) == len(self.nodes)
        return tuple((node, instances[place] if known else None) for place, node in enumerate(self.nodes))


def find_amd(fs: HostFS) -> list[AmdCard]:
    """Return the GPUs that amdgpu holds, by PCI address; graphics inside processors are GPUs too."""
    by_pci: dict[str, list[KfdNode]] = {}
    for node in read_nodes(fs):
        by_pci.setdefault(package_of(node.pci), []).append(node)
    found: list[AmdCard] = []
    taken: set[str] = set()
    for index, card in enumerate(find_cards(fs, pci.AMD, (DRIVER,))):
        nodes = sorted(by_pci.get(package_of(card.pci), []), key=lambda node: (node.partition, node.pci))
        made = _card(fs, card, index, tuple(nodes), taken)
        taken.add(made.device.uuid)
        found.append(made)
    return _with_carriers(fs, found)


def read_table(fs: HostFS, card: DrmCard) -> GpuMetrics | Unavailable:
    """Return the board's table, or why there is none."""
    place = f"{card.place}/gpu_metrics"
    try:
        return parse_gpu_metrics(fs.read(place), place)
    except Unavailable as error:
        return error
    except SourceError as error:
        return Unavailable("nonsense", str(error))


def package_of(address: str) -> str:
    """Return a PCI address without its function: partitions may be functions of one device."""
    return address.rpartition(".")[0]


def _card(fs: HostFS, card: DrmCard, index: int, nodes: Sequence[KfdNode], taken: set[str]) -> AmdCard:
    unique = parse_unique_id(word_of(fs, f"{card.place}/unique_id"))
    by_node = next((f"{node.unique_id:016x}" for node in nodes if node.unique_id), None)
    unique = unique or by_node
    uuid = unique if unique is not None and unique not in taken else f"amd-{card.pci}"
    mode = word_of(fs, f"{card.place}/current_compute_partition").upper()
    memory_mode = word_of(fs, f"{card.place}/current_memory_partition").upper()
    instances = _instances(uuid, mode, memory_mode, nodes)
    divisible = bool(mode)
    facts = {
        "unique_id": unique,
        "vbios": word_of(fs, f"{card.place}/vbios_version"),
        "card": card.card,
        "pci_device_id": f"{card.device:04x}",
        "product_number": word_of(fs, f"{card.place}/product_number"),
        "compute_partition": mode,
        "memory_partition": memory_mode,
    }
    hwmon = next((path for name, path in hwmon_directories(fs, card.place) if name == DRIVER), "")
    device = GpuDevice(
        uuid=uuid,
        index=index,
        vendor=Vendor.AMD,
        model=word_of(fs, f"{card.place}/product_name") or model_of(Vendor.AMD, card.device),
        minor=None if card.render is None else card.render - _FIRST_RENDER,
        pci=card.pci,
        serial=word_of(fs, f"{card.place}/serial_number") or None,
        mig=bool(instances) if divisible else None,
        mig_pending=bool(instances) if divisible else None,
        compute_slices=max(1, len(instances)),
        instances=instances,
        facts={name: value for name, value in facts.items() if value},
    )
    return AmdCard(device, card, hwmon, tuple(nodes))


def _instances(uuid: str, mode: str, memory_mode: str, nodes: Sequence[KfdNode]) -> tuple[GpuInstance, ...]:
    """Return the compute partitions of a divided GPU; the topology knows how many there are, else the mode does."""
    expected = partition_count(mode) or 1
    if expected == 1:
        return ()
    told = {node.partition for node in nodes}
    numbers = sorted(told) if len(told) == len(nodes) > 1 else range(len(nodes) if len(nodes) > 1 else expected)
    by_number = dict(zip(numbers, nodes, strict=False)) if len(nodes) > 1 else {}
    profile = f"{mode}/{memory_mode}".lower().strip("/")
    return tuple(
        GpuInstance(
            uuid=f"{uuid}-{number}",
            name=f"partition {number} ({profile})",
            profile=profile,
            gpu_instance=number,
            compute_instance=0,
            compute_slices=1,
            multiprocessors=by_number[number].compute_units if number in by_number else None,
            memory_bytes=by_number[number].memory_bytes if number in by_number else None,
        )
        for number in numbers
    )


def _with_carriers(fs: HostFS, cards: Sequence[AmdCard]) -> list[AmdCard]:
    """Return the cards, each die that tells no power with the die of its package that measures both."""
    two = [has_two_dies(card.card.device) for card in cards]
    measured = [pair and _tells_power(fs, card) for card, pair in zip(cards, two, strict=True)]
    devices = [card.device for card in cards]
    return [
        replace(card, device=replace(card.device, carrier=carrier_of(devices, measured, place)))
        if two[place] and not measured[place]
        else card
        for place, card in enumerate(cards)
    ]


def carrier_of(devices: Sequence[GpuDevice], measured: Sequence[bool], place: int) -> str:
    """Return the die that measures a silent one: of the same serial number, else the neighbour on the bus; or nothing.

    `measured` are the dies of such packages that tell a power.
    """
    serial = devices[place].serial
    others = [one for one, tells in enumerate(measured) if tells]
    same = [one for one in others if serial and devices[one].serial == serial]
    near = [one for one in (place - 1, place + 1) if one in others]
    chosen = same if len(same) == 1 else near
    return devices[chosen[0]].uuid if chosen else ""


def _tells_power(fs: HostFS, card: AmdCard) -> bool:
    if card.hwmon and any(number_of(fs, f"{card.hwmon}/power1_{kind}") for kind in ("average", "input")):
        return True
    table = read_table(fs, card.card)
    return isinstance(table, GpuMetrics) and bool(table.socket_power_w)
