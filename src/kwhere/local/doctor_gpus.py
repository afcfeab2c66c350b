"""Checks of GPUs: whether each vendor's library works, every GPU answers, and what is not known of them."""

from collections.abc import Iterator, Sequence

from kwhere.devices.gpu import DeviceState, GpuDevice, GpuSnapshot, Vendor
from kwhere.devices.gpu_activity import OutsideState, lacks_activity, tells_activity
from kwhere.devices.gpu_board import UNKNOWN
from kwhere.devices.gpu_fields import GpuField
from kwhere.local.doctor import Check, Examination, Remedy, counted, failed, missing, ok, warning
from kwhere.local.doctor_place import Place, SeenGpus

_REMEDIES = {
    ("nvidia", "absent"): Remedy("ls -l /dev/nvidiactl; ldconfig -p | grep libnvidia-ml", title="look for the driver"),
    ("nvidia", "driver"): Remedy("sudo modprobe nvidia", undo="sudo modprobe -r nvidia"),
    ("nvidia", "mismatch"): Remedy(
        "sudo reboot", risk="ends every job", title="the driver was replaced while its module stayed loaded"
    ),
    ("nvidia", "permission"): Remedy("ls -l /dev/nvidia*", title="see who may open the devices"),
}
_WHY_DOWN = {
    "lost": "It fell off the bus: the kernel's log has an XID 79. It needs a reset, or the node a reboot.",
    "reset_required": "Its driver wants a reset.",
    "timeout": "A call into its driver does not come back. Others are read meanwhile.",
    "absent": "It was here within 14 days, and the library does not list it any more.",
    "asleep": "It sleeps to save power, and is left asleep.",
    "released": "The agent was asked to give it back: kwhere agent gpu status.",
}
_WHY_RELEASED = (
    "Whoever divides or resets a GPU needs it so: it is not opened here either. To end it: kwhere agent gpu acquire."
)
_ACTIONS = {
    1: "a reset of the GPU",
    2: "a reboot of the node",
    3: "its P2P links drained",
    4: "to be drained and reset",
    5: "its IMEX domain recovered",
}
_WHY_ACTIVITY = (
    "Before Hopper only DCGM tells how active the parts of a GPU are. Without it a divided GPU's energy goes by the"
    " slices of instances on which a process runs."
)


def check_gpus(place: Place) -> Sequence[Check]:
    """Say how each vendor's GPUs stand, or that there is none."""
    found = place.gpus()
    if not found:
        return [missing("gpus", "none here", "The collectors gpu, gpu_claims and unit_gpu have no series then.")]
    return [check for gpus in found for check in _vendor(gpus)]


def _vendor(gpus: SeenGpus) -> Iterator[Check]:
    found = gpus.found
    name = f"gpu_{found.vendor.value}"
    if not found.library.up:
        yield _library(name, found, gpus.released)
        return
    library = found.library
    versions = ", ".join(
        f"{what} {version}" for what, version in (("driver", library.driver), ("CUDA", library.cuda)) if version
    )
    answering = sum(state.up for state in found.devices)
    words = f"{counted(answering, 'GPU')} answer{'s' if answering == 1 else ''} by {gpus.source}"
    yield ok(name, f"{words}; {versions}" if versions else words)
    if gpus.expected > len(found.devices):
        yield warning(
            f"{name}_count",
            f"{gpus.expected} on the PCI bus, the library lists {len(found.devices)}",
            "A GPU of the bus has the driver, and the library does not show it. See the kernel's log.",
        )
    for state in found.devices:
        yield from _device(state)
    yield from _events(name, found)
    if found.vendor is Vendor.NVIDIA:
        yield from _activity(name, found, gpus.outside)


def _library(name: str, found: GpuSnapshot, released: str) -> Check:
    library = found.library
    if released:
        return missing(name, released, _WHY_RELEASED)
    if library.reason in ("asleep", "released"):
        return missing(name, library.reason, _WHY_DOWN[library.reason])
    remedy = _REMEDIES.get((found.vendor.value, library.reason))
    return failed(
        name,
        f"the library does not work: {library.reason or 'no answer yet'}",
        f"{library.message.rstrip('.')}." if library.message else "",
        *([remedy] if remedy is not None else []),
    )


def _device(state: DeviceState) -> Iterator[Check]:
    device = state.device
    name = f"gpu_{device.vendor.value}_{device.index}"
    if not state.up:
        why = _WHY_DOWN.get(state.reason, "")
        yield failed(name, f"{_who(device)}: {state.reason or 'no answer yet'}", why)
        return
    readings = state.readings
    action = readings.integer(GpuField.RECOVERY_ACTION) if readings is not None else None
    if action:
        yield warning(name, f"{device.model} wants {_ACTIONS.get(action, f'action {action}')}")
    if readings is not None and readings.integer(GpuField.REMAPPED_FAILURE):
        yield warning(name, f"{device.model}: a bad row of memory could not be replaced", "Have the board replaced.")


def _who(device: GpuDevice) -> str:
    """Return model and uuid; one that answered nobody since it was put in has neither."""
    if device.model == UNKNOWN:
        return f"the library's number {device.index}, which never told who it is"
    return f"{device.model} {device.uuid}"


def _events(name: str, found: GpuSnapshot) -> Iterator[Check]:
    if found.events is not None and not found.events.up:
        yield missing(
            f"{name}_events",
            "errors are not told as they come",
            f"{found.events.message}. The kernel's log is read once a minute instead, where that is allowed.",
        )


def _activity(name: str, found: GpuSnapshot, outside: Sequence[OutsideState]) -> Iterator[Check]:
    if not lacks_activity(found):
        return
    told = [state for state in outside if state.up and not state.reason]
    if told:
        yield ok(f"{name}_activity", f"told by {told[0].source} at {told[0].place}")
        return
    reasons = "; ".join(f"{state.source} at {state.place}: {state.reason}" for state in outside)
    divided = any(state.up and state.device.instances and not tells_activity(state) for state in found.devices)
    say = warning if divided else missing
    yield say(f"{name}_activity", f"not known{f' ({reasons})' if reasons else ''}", _WHY_ACTIVITY)


CHECKS = (Examination("gpus", "GPUs", check_gpus),)
"""Of the running machine alone."""
