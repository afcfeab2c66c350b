"""Virtual machines: libvirt with and without systemd, Proxmox, and QEMU's own command line."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kwhere.discovery.match import Match, join, unit_id

MANAGER = "libvirt"

_ESCAPE = re.compile(r"(?:\\x[0-9a-fA-F]{2})+")
_MACHINE = re.compile(r"(?:qemu|kvm|xen|lxc|ch|bhyve)-(?P<id>[0-9]{1,10})-(?P<name>.+)", re.DOTALL)
_PLAIN = re.compile(r"(?:(?:qemu|lxc)-(?P<id>[0-9]{1,10})-)?(?P<name>.+)\.libvirt-(?:qemu|lxc)", re.DOTALL)
_PROXMOX = re.compile(r"(?P<id>[0-9]{1,10})\.scope")
_EMULATOR = re.compile(r"qemu-kvm|kvm|qemu-system-.+|qemu")
_COMMA = "\0"
_TOLD = ("id", "m", "name", "smbios", "smp", "uuid")
"""Options that say what the guest is; the last of each counts, as QEMU has it."""
_MEMORY = re.compile(r"(?P<amount>[0-9]{1,15})(?P<unit>[bkmgt]?)", re.IGNORECASE)
_MEMORY_SHIFTS = {"b": 0, "k": 10, "": 20, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """What QEMU's command line says of its guest."""

    uuid: str | None
    name: str | None
    vm_id: int | None = None
    vcpus: int | None = None
    """At its start; others may have been plugged in since."""
    memory_bytes: int | None = None


def match(segments: Sequence[str]) -> Match | None:
    """Return the VM that owns the path; emulator and vcpu directories belong to it. Its id here is its name."""
    for index in range(len(segments) - 1, -1, -1):
        found = _machine_at(segments, index)
        if found is not None:
            return found
    return None


def unescape(text: str) -> str:
    r"""Return a systemd unit name with `\xNN` undone; bytes that are not UTF-8 become surrogates."""
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode(errors="surrogateescape"), text)


def read_command(arguments: Sequence[str]) -> VirtualMachine | None:
    """Return the guest of a QEMU command line, None for any other command."""
    if not arguments or _EMULATOR.fullmatch(arguments[0].rpartition("/")[2]) is None:
        return None
    told = dict.fromkeys(_TOLD, "")
    for option, value in pairwise(arguments):
        word = option.lstrip("-")
        if option.startswith("-") and word in told and not (word == "smbios" and "uuid=" not in value):
            told[word] = value
    uuid = told["uuid"] or _option(told["smbios"], "uuid", bare=False)
    name = _option(told["name"], "guest", bare=True) or None
    if not (uuid or name):
        return None
    return VirtualMachine(
        uuid=uuid.lower() if uuid else None,
        name=name,
        vm_id=_count(told["id"]),
        vcpus=_vcpus(told["smp"]),
        memory_bytes=_memory(_option(told["m"], "size", bare=True) or ""),
    )


def _machine_at(segments: Sequence[str], index: int) -> Match | None:
    name = segments[index]
    above = segments[index - 1] if index else ""
    if name.endswith(".scope"):
        if name.startswith("machine-"):
            return _vm(segments, index, _MACHINE.fullmatch(unescape(name[8:-6])))
        return _proxmox(segments, index) if above in ("qemu.slice", "qemu") else None
    if above in ("machine", "machine.slice") and not name.endswith((".libvirt-qemu", ".libvirt-lxc")):
        return _vm(segments, index, _MACHINE.fullmatch(name))
    if above == "qemu" and index >= 2 and segments[index - 2] == "libvirt":  # before libvirt 1.0.5
        return _vm(segments, index, re.fullmatch(r"(?P<id>)(?P<name>.+)", name, re.DOTALL))
    return _vm(segments, index, _PLAIN.fullmatch(name))


def _vm(segments: Sequence[str], index: int, found: re.Match[str] | None) -> Match | None:
    if found is None:
        return None
    return Match(
        manager=MANAGER,
        unit=unit_id(found["name"]),
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:index]),
        name=found["name"],
        provisional=True,
        vm_id=int(found["id"]) if found["id"] else None,
    )


def _proxmox(segments: Sequence[str], index: int) -> Match | None:
    found = _PROXMOX.fullmatch(segments[index])
    if found is None:
        return None
    return Match(
        manager=MANAGER,
        unit=found["id"],
        path=join(segments),
        top=join(segments[: index + 1]),
        anchor=join(segments[:index]),
        provisional=True,
        vm_id=int(found["id"]),
    )


def _option(value: str, key: str, *, bare: bool) -> str | None:
    """Return `key` of `a=b,c=d`; `,,` is a comma in a value. With `bare` a first word without `=` counts too."""
    for position, part in enumerate(value.replace(",,", _COMMA).split(",")):
        word, equals, rest = part.partition("=")
        if equals and word == key:
            return rest.replace(_COMMA, ",")
        if bare and not equals and position == 0:
            return part.replace(_COMMA, ",")
    return None


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _vcpus(value: str) -> int | None:
    """Return the CPUs of `-smp [cpus=]N,sockets=…`; without N they are the product of the topology."""
    given = _count(_option(value, "cpus", bare=True))
    if given:
        return given
    levels = [_count(_option(value, level, bare=False)) for level in ("sockets", "dies", "cores", "threads")]
    known = [level for level in levels if level]
    return math.prod(known) if known else None


def _memory(text: str) -> int | None:
    """Return bytes of `4096`, `4G`, `4194304k`: MiB where no unit is given."""
    found = _MEMORY.fullmatch(text)
    return None if found is None else int(found["amount"]) << _MEMORY_SHIFTS[found["unit"].lower()]
