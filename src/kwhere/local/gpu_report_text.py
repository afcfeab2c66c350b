"""The self-check of GPUs for a terminal: what was read, in its unit, and under each reason what was not."""

import textwrap
from collections.abc import Iterator

from kwhere.devices.gpu import DeviceState, InstanceState, Readings
from kwhere.devices.gpu_activity import OutsideState
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.xid import xid_meaning
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.local.doctor import counted
from kwhere.local.gpu_report import GpuReport, VendorReport, alike, facts_of, missing_of
from kwhere.local.gpu_value_words import fact_words, value_words

_MILLI = 1000


def lines_of(report: GpuReport, width: int) -> list[str]:
    """Return the report's lines, at most `width` columns each where words allow it."""
    lines = [f"GPU self-check by kwhere {report.version}, Linux {report.kernel}", "", "PCI bus"]
    for gpu in report.bus:
        words = (gpu.address, f"{gpu.vendor:04x}:{gpu.device:04x}", gpu.driver or "no driver", gpu.runtime_status)
        lines += _wrapped("  ", " ".join(word for word in words if word), width)
    if not report.bus:
        lines.append("  no GPU")
    if report.released:
        lines += ["", *_wrapped("", f"GPUs were not opened: {report.released}", width)]
    for vendor in report.vendors:
        lines += ["", *_vendor(vendor, width)]
    if not report.vendors:
        lines += ["", "No vendor's GPUs are read here."]
    lines += ["", "Who holds a GPU"]
    for source in report.mapping:
        lines += _wrapped("  ", _source(source), width)
    if not report.mapping:
        lines.append("  nobody was asked")
    lines.append(f"  kernel log (past XIDs): {'readable' if report.has_kernel_log else 'not readable, or empty'}")
    return lines


def _vendor(vendor: VendorReport, width: int) -> Iterator[str]:
    found, library = vendor.found, vendor.found.library
    versions = (("driver", library.driver), ("library", library.version), ("CUDA", library.cuda))
    known = ", ".join(f"{name} {value}" for name, value in versions if value)
    yield from _wrapped("", f"{found.vendor.value} by {vendor.source}: {known or 'no versions'}", width)
    if not library.up:
        yield from _wrapped("  ", f"does not work: {library.reason} {library.message}".rstrip(), width)
    present = sum(state.reason not in ("absent", "lost") for state in found.devices) if library.up else 0
    yield f"  {counted(vendor.expected, 'GPU')} expected, {present} present"
    if vendor.timings:
        times = ", ".join(f"{timing.name} {timing.seconds * _MILLI:.0f} ms" for timing in vendor.timings)
        yield from _wrapped("  ", f"took: {times}", width)
    if found.events is not None:
        told = "told as they come" if found.events.up else f"not told: {found.events.message}"
        yield from _wrapped("  ", f"XIDs: {told}", width)
    for outside in vendor.outside:
        yield from _wrapped("  ", _outside(outside), width)
    for state, others in alike(found.devices):
        yield ""
        yield from _device(state, width)
        if others:
            numbers = ", ".join(str(other.device.index) for other in others)
            yield from _wrapped("  ", f"GPUs that tell and lack the same: {numbers}", width)


def _outside(state: OutsideState) -> str:
    if state.reason == "unasked":
        return f"activity by {state.source}: not asked, the library tells it"
    how = "answers" if state.up and not state.reason else f"{state.reason} {state.message}".rstrip()
    return f"activity by {state.source}: {how}"


def _source(state: ClaimSourceState) -> str:
    if state.up:
        return f"{state.source.value}: {counted(state.holds, 'hold')}"
    return f"{state.source.value}: {state.reason} {state.message}".rstrip()


def _device(state: DeviceState, width: int) -> Iterator[str]:
    device = state.device
    mig = {None: "cannot be divided", True: "divided", False: "not divided"}[device.mig]
    how = "up" if state.up else state.reason or "not read"
    yield from _wrapped("", f"GPU {device.index}: {device.model}, {how}", width)
    yield from _wrapped("  ", device.uuid, width)
    yield from _wrapped(
        "  ",
        f"PCI {device.pci or 'unknown'}, minor {'unknown' if device.minor is None else device.minor}, {mig}",
        width,
    )
    facts = ", ".join(f"{name} {fact_words(name, value)}" for name, value in facts_of(device.facts).items())
    if facts:
        yield from _wrapped("  ", facts, width)
    processes = state.processes_missing or "unknown" if state.processes is None else len(state.processes)
    up_links = sum(bool(link.up) for link in state.links)
    yield f"  processes: {processes}; NVLinks up: {up_links} of {len(state.links)}"
    for xid in state.xids:
        yield from _wrapped("  ", f"XID {xid.xid} ({xid_meaning(xid.xid)}): {xid.count}", width)
    if state.readings is not None:
        yield from _readings(state.readings, width)
    for one in state.instances:
        yield from _instance(one, width)


def _instance(one: InstanceState, width: int) -> Iterator[str]:
    instance = one.instance
    ids = f"GPU instance {instance.gpu_instance}, compute instance {instance.compute_instance}"
    size = f"{counted(instance.compute_slices, 'slice')}, {instance.multiprocessors} multiprocessors"
    yield from _wrapped("  ", f"{instance.profile or instance.name}: {ids}, {size}", width)
    yield from _readings(one.readings, width, everything=False)


def _readings(readings: Readings, width: int, *, everything: bool = True) -> Iterator[str]:
    """Yield values, then the names of what is missing under each reason; of an instance only what it has."""
    if readings.activity:
        yield f"    activity by {readings.activity}"
    for name in GpuField:
        if name in readings.values:
            value = readings.values[name]
            words = value_words(name, value)
            yield from _wrapped("    ", f"{name.value:<34}{value:>20}{f'  {words}' if words else ''}", width)
    if not everything:
        return
    reasons: dict[str, list[str]] = {}
    for name, why in missing_of(readings).items():
        reasons.setdefault(why, []).append(name.value)
    for why, names in sorted(reasons.items()):
        yield from _wrapped("    ", f"{why}: {', '.join(names)}", width)


def _wrapped(indent: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    ) or [indent.rstrip()]
