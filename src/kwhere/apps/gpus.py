"""Puts the GPUs of a node together: whose there are, and the child process that reads each vendor's."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.dcgm_exporter import DcgmExporter
from kwhere.devices.gpu import GpuDevice, GpuSource, Vendor
from kwhere.devices.gpu_activity import OutsideSource, lacks_activity
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch, PastXid
from kwhere.devices.hostengine import FirstOf, HostEngineSource
from kwhere.devices.xid import parse_xid
from kwhere.graphics.amd import AmdLibrary
from kwhere.graphics.intel import IntelLibrary
from kwhere.graphics.readers import AMDGPU, AMDSMI, INTEL_GPU, has_amdsmi
from kwhere.graphics.recorded import RecordedGpus
from kwhere.kernel import amdgpu, intel_gpu, kmsg, pci
from kwhere.kernel.drm import find_cards
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import RecordedClock

NVIDIA_DRIVER = "proc/driver/nvidia/version"
"""There while NVIDIA's driver is loaded, also in containers that see no PCI bus."""
PASSED_ON = "vfio-pci"
"""Driver of a GPU that was given to a guest: the host's library does not see it."""
_LOOK_SECONDS = 0.02


class NodeGpus(GpuSource, Protocol):
    """One vendor's GPUs, as the agent starts and ends to read them."""

    def start(self) -> None:
        """Begin to read."""
        ...

    def release(self, timeout_seconds: float = 10.0) -> bool:
        """Give every handle back; return whether none is held any more."""
        ...

    def acquire(self) -> None:
        """Take handles again after `release`."""
        ...

    def close(self) -> None:
        """End reading."""
        ...


RELEASED = "released"
"""Why GPUs are not opened that the agent here has given back."""


def open_gpus(
    settings: GpuSettings, host: HostFS, known: Sequence[GpuDevice] = (), *, released: bool = False
) -> tuple[NodeGpus, ...]:
    """Return a source for each vendor that has, or had, a GPU here; nothing is opened.

    `released`: another process has given them back on request, so this one never opens them either. On a recorded host
    the files of AMD's and Intel's drivers are read as they were copied; no library is asked.
    """
    if host.is_recorded:
        return tuple(open_recorded(settings, host))
    watches: list[NodeGpus] = []
    for vendor, reader in ((Vendor.NVIDIA, open_nvidia), (Vendor.AMD, open_amd), (Vendor.INTEL, open_intel)):
        had = [device for device in known if device.vendor is vendor]
        watch = reader(settings, host, had) if vendor not in settings.off else None
        if watch is not None and released:
            watch.forbid(RELEASED)
        if watch is not None:
            watches.append(watch)
    return tuple(watches)


def open_nvidia(settings: GpuSettings, host: HostFS, had: Sequence[GpuDevice]) -> GpuWatch | None:
    """Return the watch over NVIDIA's library; None where there is, and was, no GPU of theirs."""
    if not had and not has_nvidia(settings, host):
        return None
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
    return watch


def open_amd(settings: GpuSettings, host: HostFS, had: Sequence[GpuDevice]) -> GpuWatch | None:
    """Return the watch over AMD's GPUs, by amdsmi where it is installed; its library may wake a GPU that sleeps."""
    if not had and not find_cards(host, pci.AMD, (amdgpu.DRIVER,)):
        return None
    reader = AMDSMI if has_amdsmi(settings.amdsmi_path) else AMDGPU
    may_open = partial(reason_to_wait, host, pci.AMD) if reader == AMDSMI else str
    argv = _argv(reader, host, settings.amdsmi_path)
    return GpuWatch(Vendor.AMD, argv, settings, may_open=may_open, known=had, source=reader)


def open_intel(settings: GpuSettings, host: HostFS, had: Sequence[GpuDevice]) -> GpuWatch | None:
    """Return the watch over the GPUs of i915 and xe."""
    if not had and not find_cards(host, pci.INTEL, intel_gpu.DRIVERS):
        return None
    return GpuWatch(Vendor.INTEL, _argv(INTEL_GPU, host, ""), settings, known=had, source=INTEL_GPU)


def open_recorded(settings: GpuSettings, host: HostFS) -> Iterator[RecordedGpus]:
    """Yield the GPUs of a copied tree."""
    clock_ns = RecordedClock(host).monotonic_ns
    if Vendor.AMD not in settings.off and find_cards(host, pci.AMD, (amdgpu.DRIVER,)):
        yield RecordedGpus(Vendor.AMD, AMDGPU, lambda: AmdLibrary(host, clock_ns), host)
    if Vendor.INTEL not in settings.off and find_cards(host, pci.INTEL, intel_gpu.DRIVERS):
        yield RecordedGpus(Vendor.INTEL, INTEL_GPU, lambda: IntelLibrary(host, clock_ns), host)


def _argv(reader: str, host: HostFS, path: str) -> tuple[str, ...]:
    places = (str(host.path("proc")), str(host.path("sys")))
    return (sys.executable, "-m", "kwhere.graphics.child", reader, *places, *((path,) if path else ()))


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
    sources: list[OutsideSource] = []
    if settings.hostengine:
        sources.append(HostEngineSource(settings.hostengine, settings.dcgm_library, is_wanted))
    if settings.dcgm_exporter_url:
        before = tuple(sources)
        sources.append(
            DcgmExporter(
                settings.dcgm_exporter_url, lambda: is_wanted() and all(one.latest() is None for one in before)
            )
        )
    return FirstOf(sources)


def past_xids(device: str = kmsg.DEVICE) -> Iterator[PastXid]:
    """Yield the XIDs that the kernel's log still holds; nothing where it may not be read (CAP_SYSLOG)."""
    boot_utc_ns = time.time_ns() - time.monotonic_ns()
    for message in kmsg.read_kernel_log(device):
        found = parse_xid(message.text)
        if found is not None:
            time_ns = message.time_us * 1000
            yield PastXid(found, time_ns, boot_utc_ns + time_ns)


def start_gpus(
    watches: Sequence[NodeGpus], seconds: float, monotonic_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Start every watch, and wait until each library has answered or failed, or for `seconds`."""
    for watch in watches:
        watch.start()
    deadline_ns = monotonic_ns() + int(seconds * NANOSECONDS_PER_SECOND)
    while monotonic_ns() < deadline_ns and not all(_has_answered(watch) for watch in watches):
        time.sleep(_LOOK_SECONDS)


def _has_answered(watch: GpuSource) -> bool:
    """Return whether a library failed, or opened and was read once: of each device it is known whether it is up."""
    found = watch.snapshot()
    if not found.library.up:
        return found.answered
    return all(state.up or state.reason for state in found.devices)
