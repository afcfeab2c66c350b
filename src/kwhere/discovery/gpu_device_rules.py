"""Which GPUs the device rules of a v1 cgroup let a unit open (Documentation/admin-guide/cgroup-v1/devices.rst)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kwhere.discovery.gpu_names import GpuNames, Place

NVIDIA_MAJOR = 195
DRM_MAJOR = 226
_FIRST_CONTROL_MINOR = 250
"""Of NVIDIA's: 254 is modesetting, 255 the control device, which every user of any GPU opens."""
_RENDER_NODES = 128
_RULE = re.compile(r"([abc]) ([0-9]{1,6}|\*):([0-9]{1,7}|\*)(?: [rwm]*)?")


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """Character devices that are open to a unit, one by one. `everything`: no rule holds it back."""

    everything: bool = False
    devices: tuple[tuple[int, int], ...] = ()
    """Major and minor."""


def parse_device_rules(text: str) -> DeviceRules:
    """Return the rules of `devices.list`; lines of another form are left out."""
    everything = False
    found: list[tuple[int, int]] = []
    for line in text.splitlines():
        rule = _RULE.fullmatch(line.strip())
        if rule is None or rule[1] == "b":
            continue
        if rule[1] == "a" or rule[2] == "*":
            everything = True
        elif rule[3] == "*":
            everything = everything or int(rule[2]) in (NVIDIA_MAJOR, DRM_MAJOR)
        else:
            found.append((int(rule[2]), int(rule[3])))
    return DeviceRules(everything, tuple(found))


def places_of(rules: DeviceRules, names: GpuNames) -> list[Place]:
    """Return the GPUs that are opened one by one; none where everything is open: that gives nothing to anybody.

    Of a divided GPU the instances, by their capability files: its own device file is open to all of them.
    """
    if rules.everything:
        return []
    found = dict.fromkeys(_places(rules, names))
    return [place for place in found if not names.is_divided(place)]


def _places(rules: DeviceRules, names: GpuNames) -> Iterator[Place]:
    majors = names.facts.majors
    nvidia, drm = majors.get("nvidia", NVIDIA_MAJOR), majors.get("drm", DRM_MAJOR)
    for major, minor in rules.devices:
        if major == nvidia and minor < _FIRST_CONTROL_MINOR:
            yield from names.find(f"nvidia{minor}")
        elif major == majors.get("nvidia-caps"):
            yield from (place for place in names.by_capability(minor) if place.instance)
        elif major == drm:
            yield from names.by_card(f"renderD{minor}" if minor >= _RENDER_NODES else f"card{minor}")
