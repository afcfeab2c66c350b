"""GPUs in OAR's file of a job's resources: lines `gpu = '3' , gpudevice = '1' , host = 'node-1' …`."""

import re
from collections.abc import Collection

_PROPERTY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*'((?:[^'\\]|\\.)*)'")
_HOSTS = ("network_address", "host")


def parse_gpu_devices(text: str, node_names: Collection[str]) -> tuple[int, ...]:
    """Return N of each `/dev/nvidiaN` that the job has on this node. A line without a host is about this node."""
    wanted = {form for name in node_names for form in _forms(name)}
    found: dict[int, None] = {}
    for line in text.splitlines():
        properties = {name.lower(): value for name, value in _PROPERTY.findall(line)}
        hosts = {form for name in _HOSTS if properties.get(name) for form in _forms(properties[name])}
        if hosts and wanted and not wanted & hosts:
            continue
        device = properties.get("gpudevice", "").strip()
        if device.isascii() and device.isdigit() and len(device) < 6:
            found[int(device)] = None
    return tuple(found)


def _forms(name: str) -> tuple[str, ...]:
    """Return a host name, and without its domain; an address has no domain."""
    word = name.lower()
    short = word.partition(".")[0]
    return (word,) if short.isdigit() else (word, short)
