"""What a GPU, or an instance of one, is called: index, minor number, uuid, PCI address, and managers' own names."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.devices.gpu import GpuDevice, GpuInstance, Vendor, pci_address

_REPLICA = re.compile(r"(.+)::([0-9]{1,9})", re.DOTALL)
_GKE = re.compile(r"(?:/dev/)?nvidia([0-9]{1,4})(?:/gi([0-9]{1,4}))?(?:/vgpu([0-9]{1,6}))?")
_OLD_MIG = re.compile(r"mig-(gpu-[0-9a-f-]+)/([0-9]{1,4})/([0-9]{1,4})")
_CARD = re.compile(r"(?:/dev/dri/)?(card[0-9]{1,4}|renderd[0-9]{1,4})(?:-([0-9]{1,6}))?")
_PARTITION = re.compile(r"amdgpu_xcp[_.]([0-9]{1,4})")
_CDI = re.compile(r"(?:[a-z0-9-]+\.)*?(nvidia|amd|intel)\.com/[a-z0-9_.-]+=([^=]+)")
"""A device by its kind, as the Container Device Interface writes it: `nvidia.com/gpu=0:1`, `…=GPU-…`."""
_CDI_NUMBER = re.compile(r"([0-9]{1,4})(?::([0-9]{1,3}))?")
_DRA_WHOLE = re.compile(r"gpu-([0-9]{1,4})")
_DRA_MIG = re.compile(r"gpu-([0-9]{1,4})-mig-([0-9a-z.+]+)-[0-9]{1,4}(?:-[0-9]{1,4})?")
_UUID = re.compile(r"(?:gpu-|mig-)?[0-9a-f][0-9a-f-]*")
_SHORTEST_PREFIX = 4
"""Digits of a uuid that are worth a look: `CUDA_VISIBLE_DEVICES` takes any prefix that only one GPU has."""
_VENDORS = tuple(Vendor)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A GPU, or one instance of it; both by uuid. An empty `instance` is the whole device."""

    device: str
    instance: str = ""


Places = tuple[Place, ...]
"""What a name stands for; empty: nothing here has that name. A GPU instance may be cut into several."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """How this node's kernel names its GPUs besides."""

    cards: Mapping[str, str] = field(default_factory=dict)
    """PCI address by `card1`, `renderD128`."""
    partitions: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """PCI address and partition of each `amdgpu_xcp_N`."""
    capabilities: Mapping[int, tuple[int, int, int | None]] = field(default_factory=dict)
    """Device minor, GPU instance and compute instance (None: all of the GPU instance) by minor of nvidia-caps."""
    majors: Mapping[str, int] = field(default_factory=dict)
    """Major number of a kind of character device: `nvidia`, `nvidia-caps`, `drm`."""


def split_replica(text: str) -> tuple[str, int | None]:
    """Return a device id without its replica, and the replica's number: `GPU-…::3`, `nvidia0/vgpu3`, `card1-3`."""
    found = _REPLICA.fullmatch(text)
    if found is not None:
        return found[1], int(found[2])
    gke = _GKE.fullmatch(text)
    if gke is not None and gke[3] is not None:
        return text.rpartition("/vgpu")[0], int(gke[3])
    card = _CARD.fullmatch(text.lower())
    if card is not None and card[2] is not None:
        return text.rpartition("-")[0], int(card[2])
    return text, None


def place_of(device: GpuDevice, gpu_instance: int | None, compute_instance: int | None) -> Place | None:
    """Return where a process runs, by the instance that the library names; None: which one is not known."""
    if not device.mig or not device.instances:
        return Place(device.uuid)
    inside = (
        Place(device.uuid, instance.uuid)
        for instance in device.instances
        if instance.gpu_instance == gpu_instance and compute_instance in (None, instance.compute_instance)
    )
    return next(inside, None)


class GpuNames:
    """Looks names up among the GPUs that are here. No number is guessed to be of another kind."""

    def __init__(self, devices: Iterable[GpuDevice], facts: NodeFacts | None = None) -> None:
        self.devices = tuple(devices)
        self.facts = facts or NodeFacts()
        self._instances = {
            instance.uuid.lower(): Place(device.uuid, instance.uuid)
            for device in self.devices
            for instance in device.instances
        }

    def of(self, vendor: Vendor) -> "GpuNames":
        """Return the names of one vendor's GPUs: numbers count each vendor's from 0."""
        return GpuNames((device for device in self.devices if device.vendor is vendor), self.facts)

    def of_first_vendor(self) -> "GpuNames":
        """Return the names of the GPUs that managers give out: a workstation's graphics is seldom among them."""
        vendors = [vendor for vendor in _VENDORS if any(device.vendor is vendor for device in self.devices)]
        return self.of(vendors[0]) if len(vendors) > 1 else self

    def find(self, text: str) -> Places:
        """Return what a device id means, in any form but a bare number. A replica's number does not matter."""
        word = split_replica(text.strip())[0].lower()
        qualified = _CDI.fullmatch(word)
        if qualified is not None:
            return self.of(Vendor(qualified[1]))._qualified(qualified[2])
        for form, look in self._forms():
            found = form.fullmatch(word)
            if found is not None:
                return look(found)
        return self.by_pci(word) or self._by_uuid(word)

    def _qualified(self, name: str) -> Places:
        """Return what a name of one vendor's CDI file means: there, other than elsewhere, numbers are indices."""
        number = _CDI_NUMBER.fullmatch(name)
        if number is None:
            return self.find(name)
        return self.by_place(int(number[1]), _number(number[2]))

    def by_index(self, number: int, gpu_instance: int | None = None) -> Places:
        """Return the device with the library's index, or its instances within one GPU instance."""
        return self._within((d for d in self.devices if d.index == number), gpu_instance)

    def by_place(self, index: int, position: int | None = None) -> Places:
        """Return the device with the library's index, or the instance at a position on it; not a divided device."""
        if position is None:
            return tuple(place for place in self.by_index(index) if not self.is_divided(place))
        chosen = [device for device in self.devices if device.index == index and position < len(device.instances)]
        return tuple(Place(device.uuid, device.instances[position].uuid) for device in chosen)

    def by_minor(self, number: int, gpu_instance: int | None = None, compute_instance: int | None = None) -> Places:
        """Return the device `/dev/nvidiaN`; where no minor number is known, N is the index."""
        known = [device for device in self.devices if device.minor is not None]
        found = [d for d in known if d.minor == number] if known else [d for d in self.devices if d.index == number]
        return self._within(found, gpu_instance, compute_instance)

    def by_pci(self, text: str) -> Places:
        """Return the device at a PCI address, however it is written. AMD's first partition goes by its GPU's."""
        wanted = pci_address(text)
        found = [device for device in self.devices if device.pci and pci_address(device.pci) == wanted]
        if any(device.vendor is Vendor.AMD and device.mig for device in found):
            return self._within(found, 0) or tuple(Place(device.uuid) for device in found)
        return tuple(Place(device.uuid) for device in found)

    def by_capability(self, minor: int) -> Places:
        """Return what `/dev/nvidia-caps/nvidia-capN` opens."""
        found = self.facts.capabilities.get(minor)
        return self.of(Vendor.NVIDIA).by_minor(*found) if found is not None else ()

    def by_card(self, name: str) -> Places:
        """Return the device behind `card1` or `renderD128`."""
        wanted = name.lower()
        pci = next((pci for card, pci in self.facts.cards.items() if card.lower() == wanted), None)
        return self.by_pci(pci) if pci is not None else ()

    def by_file(self, path: str) -> Places:
        """Return what a device file opens: `/dev/nvidia0`, `/dev/nvidia-caps/nvidia-cap66`, `/dev/dri/renderD128`."""
        name = path.rpartition("/")[2]
        if name.startswith("nvidia-cap") and name[10:].isascii() and name[10:].isdigit():
            return self.by_capability(int(name[10:16]))
        return self.find(name) if name.startswith(("nvidia", "card", "renderD")) else ()

    def by_claim(self, name: str) -> Places:
        """Return what NVIDIA's DRA driver calls `gpu-0` or `gpu-0-mig-1g12gb-19-6`: minor, profile, its id, start."""
        whole, inside = _DRA_WHOLE.fullmatch(name.lower()), _DRA_MIG.fullmatch(name.lower())
        if whole is not None:
            return self.by_minor(int(whole[1]))
        return self._by_profile(int(inside[1]), inside[2]) if inside is not None else ()

    def one_by_one(self, *, by_minor: bool = False) -> tuple[Place, ...]:
        """Return every device that can be given out, in order of PCI address or minor number; MIG: its instances.

        GPUs of the vendor that comes first go first: a workstation's graphics is seldom what jobs are given.
        """
        ordered = sorted(self.devices, key=_by_minor if by_minor else _by_pci)
        return tuple(place for device in ordered for place in _parts(device))

    def is_divided(self, place: Place) -> bool:
        """Return whether a place is a whole device that stands divided."""
        return not place.instance and any(d.uuid == place.device and d.mig and d.instances for d in self.devices)

    def _forms(self) -> Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], Places]]]:
        return (
            (_GKE, lambda found: self.of(Vendor.NVIDIA).by_minor(int(found[1]), _number(found[2]))),
            (_OLD_MIG, lambda found: self._by_parent(found[1], int(found[2]), int(found[3]))),
            (_CARD, lambda found: self.by_card(found[1])),
            (_PARTITION, lambda found: self._by_partition(int(found[1]))),
        )

    def _within(
        self, devices: Iterable[GpuDevice], gpu_instance: int | None, compute_instance: int | None = None
    ) -> Places:
        if gpu_instance is None:
            return tuple(Place(device.uuid) for device in devices)
        return tuple(
            Place(device.uuid, instance.uuid)
            for device in devices
            for instance in device.instances
            if instance.gpu_instance == gpu_instance and compute_instance in (None, instance.compute_instance)
        )

    def _by_parent(self, uuid: str, gpu_instance: int, compute_instance: int) -> Places:
        parents = [device for device in self.devices if device.uuid.lower() == uuid]
        return self._within(parents, gpu_instance, compute_instance)

    def _by_partition(self, number: int) -> Places:
        found = self.facts.partitions.get(number)
        if found is None:
            return ()
        parents = {place.device for place in self.by_pci(found[0])}
        inside = self._within((d for d in self.devices if d.uuid in parents), found[1])
        return inside or tuple(Place(uuid) for uuid in sorted(parents))

    def _by_profile(self, minor: int, profile: str) -> Places:
        """Return the one instance of a profile; two of the same cannot be told apart by it."""
        wanted = profile.replace(".", "")
        found = [
            Place(device.uuid, instance.uuid)
            for device in self.devices
            if any(place.device == device.uuid for place in self.by_minor(minor))
            for instance in device.instances
            if instance.profile.replace(".", "").lower() == wanted
        ]
        return tuple(found) if len(found) == 1 else ()

    def _by_uuid(self, word: str) -> Places:
        if _UUID.fullmatch(word) is None or word.isdigit():
            return ()
        if word in self._instances:
            return (self._instances[word],)
        whole = [Place(d.uuid) for d in self.devices if word in _names_of(d)]
        if whole or len(word.removeprefix("gpu-").removeprefix("mig-")) < _SHORTEST_PREFIX:
            return tuple(whole)
        begins = [Place(d.uuid) for d in self.devices if any(name.startswith(word) for name in _names_of(d))]
        begins += [place for name, place in self._instances.items() if name.startswith(word)]
        return tuple(begins) if len(begins) == 1 else ()


def _names_of(device: GpuDevice) -> tuple[str, ...]:
    """Return a device's ids in lower case; AMD's runtime calls it `GPU-` and its unique id."""
    unique = device.facts.get("unique_id", "").lower().removeprefix("0x")
    return (device.uuid.lower(), f"gpu-{unique}", unique) if unique else (device.uuid.lower(),)


def _parts(device: GpuDevice) -> list[Place]:
    instances: Sequence[GpuInstance] = device.instances if device.mig else ()
    return [Place(device.uuid, instance.uuid) for instance in instances] or [Place(device.uuid)]


def _by_pci(device: GpuDevice) -> tuple[int, str, int]:
    return _VENDORS.index(device.vendor), pci_address(device.pci) if device.pci else "~", device.index


def _by_minor(device: GpuDevice) -> tuple[int, int, int]:
    return _VENDORS.index(device.vendor), 1 << 30 if device.minor is None else device.minor, device.index


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
