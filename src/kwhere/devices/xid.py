"""NVIDIA's XIDs: what each number means, and the lines in which the kernel's log tells one.

Source: NVIDIA's "Xid Errors" catalogue, in the words that dcgm-exporter's label `err_msg` has.
"""

import re
from dataclasses import dataclass

UNKNOWN = "Unknown Error"
LARGEST = 9999
"""No XID has more digits; a longer number is no XID."""

_STREAM = "Invalid or corrupted push buffer stream"
_VIDEO = "Video processor exception"
_STOPPED = "GPU stopped processing"
_MEANINGS: dict[int, str] = {
    0: "No Error",
    **dict.fromkeys((1, 2, 3, 4, 6, 11, 32), _STREAM),
    **dict.fromkeys((5, 10, 14, 15, 17, 23, 39, 40, 41, 49, 50, 51, 52, 53, 55), "Unused"),
    7: "Invalid or corrupted push buffer address",
    **dict.fromkeys((8, 43, 46), _STOPPED),
    9: "Driver error programming GPU",
    12: "Driver error handling GPU exception",
    13: "Graphics Engine Exception",
    16: "Display engine hung",
    18: "Bus mastering disabled in PCI Config Space",
    **dict.fromkeys((19, 56), "Display Engine error"),
    20: "Invalid or corrupted Mpeg push buffer",
    21: "Invalid or corrupted Motion Estimation push buffer",
    22: "Invalid or corrupted Video Processor push buffer",
    24: "GPU semaphore timeout",
    25: "Invalid or illegal push buffer stream",
    26: "Framebuffer timeout",
    **dict.fromkeys((27, 28, 29, 34, 35, 36, 42, 47, 60, 65), _VIDEO),
    30: "GPU semaphore access error",
    31: "GPU memory page fault",
    **dict.fromkeys((33, 59), "Internal micro-controller error"),
    **dict.fromkeys((37, 38), "Driver firmware error"),
    44: "Graphics Engine fault during context switch",
    45: "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda",
    48: "Double Bit ECC Error",
    54: "Auxiliary power is not connected to the GPU board",
    57: "Error programming video memory interface",
    58: "Unstable video memory interface detected",
    61: "Internal micro-controller breakpoint/warning",
    **dict.fromkeys((62, 169), "Internal micro-controller halt"),
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    **dict.fromkeys((66, 67), "Illegal access by driver"),
    68: "NVDEC0 Exception",
    69: "Graphics Engine class error",
    **{70 + engine: f"CE{3 + engine}: Unknown Error" for engine in range(3)},
    73: "NVENC2 Error",
    74: "NVLINK Error",
    **{75 + engine: f"CE{6 + engine}: Unknown Error" for engine in range(3)},
    78: "vGPU Start Error",
    79: "GPU has fallen off the bus",
    80: "Corrupted data sent to GPU",
    81: "VGA Subsystem Error",
    82: "NVJPG0 Error",
    83: "NVDEC1 Error",
    84: "NVDEC2 Error",
    85: "CE9: Unknown Error",
    86: "OFA Exception",
    **dict.fromkeys((87, 90, 91, 108), "Reserved"),
    88: "NVDEC3 Error",
    89: "NVDEC4 Error",
    92: "High single-bit ECC error rate",
    93: "Non-fatal violation of provisioned InfoROM wear limit",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    **{96 + engine: f"NVDEC{5 + engine} Error" for engine in range(3)},
    **{99 + engine: f"NVJPG{1 + engine} Error" for engine in range(7)},
    106: "SMBPBI Test Message",
    107: "SMBPBI Test Message Silent",
    109: "Context Switch Timeout Error",
    110: "Security Fault Error",
    111: "Display Bundle Error Event",
    112: "Display Supervisor Error",
    113: "DP Link Training Error",
    114: "Display Pipeline Underflow Error",
    115: "Display Core Channel Error",
    116: "Display Window Channel Error",
    117: "Display Cursor Channel Error",
    118: "Display Pixel Pipeline Error",
    119: "GSP RPC Timeout",
    120: "GSP Error",
    121: "C2C Link Error",
    122: "SPI PMU RPC Read Failure",
    123: "SPI PMU RPC Write Failure",
    124: "SPI PMU RPC Erase Failure",
    125: "Inforom FS Failure",
    **{126 + engine: f"Robust Channel CE{10 + engine} Error" for engine in range(10)},
    136: "ALI Training Fail",
    137: "NVLink Privilege Error",
    138: "Robust Channel DLA Error",
    139: "Robust Channel OFA1 Error",
    140: "Unrecovered ECC Error",
    141: "Robust Channel Fast Path Error",
    142: "Robust Channel NVENVC3 Error",
    143: "GPU Initialization Failure",
    **{
        144 + place: f"NVLINK: {part} Error"
        for place, part in enumerate(("Saw", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE"))
    },
    151: "Robust Channel Key rotation Error",
    152: "Robust Channel DLA SMMU Error",
    153: "Robust Channel DLA timeout Error",
    154: "GPU Recovery Action Changed",
    155: "NVLINK: SW Defined Error",
    156: "Resource Retirement Event",
    157: "Resource Retirement Failure",
    158: "GPU Fatal Timeout",
    159: "Robust Channel CHI Non-Data Error",
    160: "Channel Retirement Event",
    161: "Channel Retirement Failure",
    162: "Power Smoothing HW Circuitry Reengaged",
    163: "Power Smoothing HW Circuitry Disengaged",
    164: "Power Smoothing HW Circuitry Low Lifetime",
    165: "Power Smoothing HW Circuitry Lifetime Exhausted",
    166: "NVLINK Secure Crypto Error",
    167: "PCIE Fatal Timeout",
    168: "Reduced GPU Memory Capacity (Errors found in write protection region)",
    170: "NVLINK: Interrupt seen in CC mode",
    171: "Uncorrectable DRAM Error",
    172: "Uncorrectable SRAM Error",
}

_LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-7])?(?: GPU-I:([0-9a-f]{1,4}))?\)"
    r": ([0-9]{1,5})(?![0-9])",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class XidLine:
    """One XID in the kernel's log."""

    pci: str
    """Normal form, function 0: `0000:3b:00.0`."""
    xid: int
    gpu_instance: int | None = None


def xid_meaning(xid: int) -> str:
    """Return what an XID means; `Unknown Error` for one above or outside the catalogue."""
    return _MEANINGS.get(xid, UNKNOWN)


def parse_xid(text: str) -> XidLine | None:
    """Return the XID that a line of the kernel's log tells; None for any other line.

    `NVRM: Xid (PCI:0000:3b:00): 79, pid=…`; of a MIG instance `(PCI:0000:3b:00 GPU-I:05)`, its id hexadecimal.
    """
    found = _LINE.search(text)
    if found is None:
        return None
    domain, bus, slot, instance, number = found.groups()
    xid = int(number)
    if not 0 < xid <= LARGEST:
        return None
    pci = f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.0"
    return XidLine(pci, xid, None if instance is None else int(instance, 16))
