"""Puts the GPUs of a node together: whose there are, and the child process that reads each vendor's."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.dcgm_exporter import DcgmExporter
from kwhere.devices.gpu import GpuDevice, Vendor
from kwhere.devices.gpu_activity import NothingOutside, OutsideSource, lacks_activity
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch, PastXid
from kwhere.devices.xid import parse_xid
from kwhere.kernel import kmsg, pci
from kwhere.kernel.hostfs import HostFS

NVIDIA_DRIVER = "proc/driver/nvidia/version"
"""There while NVIDIA's driver is loaded, also in containers that see no PCI bus."""
PASSED_ON = "vfio-pci"
"""Driver of a GPU that was given to a guest: the host's library does not see it."""
_LOOK_SECONDS = 0.02


def open_gpus(settings: GpuSettings, host: HostFS, known: Sequence[GpuDevice] = ()) -> tuple[GpuWatch, ...]:
    """Return a watch for each vendor that has, or had, a GPU here; nothing is opened. None on a recorded host."""
    if host.is_recorded:
        return ()
    watches = []
    had = [device for device in known if device.vendor is Vendor.NVIDIA]
    if Vendor.NVIDIA not in settings.off and (had or has_nvidia(settings, host)):
        argv = (sys.executable, "-m", "kwhere.devices.gpu_child", Vendor.NVIDIA.value, settings.nvml_library)
        watch = GpuWatch(
            Vendor.NVIDIA,
            argv,
            settings,
            may_open=partial(reason_to_wait, host, pci.NVIDIA),
            known=had,
            outside=outside_of(settings, lambda: lacks_activity(watch.snapshot())),
            past_xids=past_xids,
        )
        watches.append(watch)
    return tuple(watches)


def has_nvidia(settings: GpuSettings, host: HostFS) -> bool:
    """Return whether NVIDIA's library may find a GPU here."""
    on_bus = any(gpu.driver != PASSED_ON for gpu in pci.find_pci_gpus(host, pci.NVIDIA))
    return bool(settings.nvml_library) or on_bus or host.exists(NVIDIA_DRIVER)


def reason_to_wait(host: HostFS, vendor: int) -> str:
    """Return `asleep` while a laptop's GPU sleeps: to open the library would wake it, and cost more than it tells."""
    sleepers = (gpu for gpu in pci.find_pci_gpus(host, vendor) if gpu.sleeps and gpu.driver != PASSED_ON)
    return "asleep" if any(pci.is_asleep(host, gpu) for gpu in sleepers) else ""


def outside_of(settings: GpuSettings, is_wanted: Callable[[], bool]) -> OutsideSource:
    """Return who tells the activity that NVIDIA's library does not."""
    if not settings.dcgm_exporter_url:
        return NothingOutside()
    return DcgmExporter(settings.dcgm_exporter_url, is_wanted)


def past_xids(device: str = kmsg.DEVICE) -> Iterator[PastXid]:
    """Yield the XIDs that the kernel's log still holds; nothing where it may not be read (CAP_SYSLOG)."""
    boot_utc_ns = time.time_ns() - time.monotonic_ns()
    for message in kmsg.read_kernel_log(device):
        found = parse_xid(message.text)
        if found is not None:
            time_ns = message.time_us * 1000
            yield PastXid(found, time_ns, boot_utc_ns + time_ns)


def start_gpus(
    watches: Sequence[GpuWatch], seconds: float, monotonic_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Start every watch, and wait until each library has answered or failed, or for `seconds`."""
    for watch in watches:
        watch.start()
    deadline_ns = monotonic_ns() + int(seconds * NANOSECONDS_PER_SECOND)
    while monotonic_ns() < deadline_ns and not all(_has_answered(watch) for watch in watches):
        time.sleep(_LOOK_SECONDS)


def _has_answered(watch: GpuWatch) -> bool:
    """Return whether a library failed, or opened and was read once: of each device it is known whether it is up."""
    found = watch.snapshot()
    if not found.library.up:
        return found.answered
    return all(state.up or state.reason for state in found.devices)
