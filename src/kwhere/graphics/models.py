"""Names of boards whose driver does not tell one, by PCI device id (pci.ids)."""

from collections.abc import Mapping

from kwhere.devices.gpu import Vendor

_AMD: Mapping[int, str] = {
    0x738C: "AMD Instinct MI100",
    0x738E: "AMD Instinct MI100",
    0x7408: "AMD Instinct MI250X",
    0x740C: "AMD Instinct MI250X/MI250",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A2: "AMD Instinct MI308X",
    0x74A5: "AMD Instinct MI325X",
    0x75A0: "AMD Instinct MI350X",
    0x75A3: "AMD Instinct MI355X",
}
_INTEL: Mapping[int, str] = {
    0x0BD5: "Intel Data Center GPU Max 1550",
    0x0BD6: "Intel Data Center GPU Max 1550",
    0x0BD9: "Intel Data Center GPU Max 1100",
    0x0BDA: "Intel Data Center GPU Max 1100",
    0x56C0: "Intel Data Center GPU Flex 170",
    0x56C1: "Intel Data Center GPU Flex 140",
    0x56A0: "Intel Arc A770",
    0x56A1: "Intel Arc A750",
    0xE20B: "Intel Arc B580",
    0xE20C: "Intel Arc B570",
}
_MAKERS = {Vendor.AMD: ("AMD", _AMD), Vendor.INTEL: ("Intel", _INTEL)}


def model_of(vendor: Vendor, device_id: int) -> str:
    """Return a board's name, or the maker and the id where it is not in the table."""
    maker, names = _MAKERS[vendor]
    return names.get(device_id, f"{maker} GPU {device_id:04x}")
