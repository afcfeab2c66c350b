"""Puts the self-check of GPUs together: each vendor's reader is asked as the agent would, group by group."""

import os
import time
from collections.abc import Callable, Sequence

from kwhere._version import __version__
from kwhere.apps.doctor_gpu_access import GpuAccess
from kwhere.apps.gpus import NodeGpus
from kwhere.collectors.gpu import expected_gpus
from kwhere.devices.gpu import GpuSnapshot
from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_watch import GpuWatch
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.kernel import kmsg
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.pci import find_pci_gpus
from kwhere.local.gpu_report import GpuReport, Timing, VendorReport

_ANSWER_SECONDS = 30.0
_WINDOW_SECONDS = 0.3
"""Activity is a mean between two readings, which must lie 0.1 s apart."""


def examine_gpus(access: GpuAccess, fs: HostFS, mapping: Callable[[], Sequence[ClaimSourceState]] = tuple) -> GpuReport:
    """Return everything that can be read of the GPUs here; takes some seconds, a minute where a GPU hangs."""
    watches, released = access.open(), access.released(names=False)
    try:
        vendors = tuple(_examine(watch, fs) for watch in watches)
    finally:
        for watch in watches:
            watch.close()
    return GpuReport(
        version=__version__,
        kernel=os.uname().release,
        bus=tuple(find_pci_gpus(fs)),
        vendors=vendors,
        mapping=tuple(mapping()),
        released=released,
        has_kernel_log=not fs.is_recorded and next(kmsg.read_kernel_log(), None) is not None,
    )


def _examine(watch: NodeGpus, fs: HostFS) -> VendorReport:
    if not isinstance(watch, GpuWatch):
        found = watch.snapshot()
        return VendorReport(watch.source, found, expected=expected_gpus(fs, found))
    timings = [_timed(watch, "open and first reading", (RateGroup.FAST,))]
    if watch.snapshot().library.up:
        timings += [_timed(watch, f"{group.value} group", (group,)) for group in RateGroup]
        watch.outside.ask()
        time.sleep(_WINDOW_SECONDS)
    found = _whole(watch)
    return VendorReport(watch.source, found, tuple(timings), watch.outside.states(), expected_gpus(fs, found))


def _timed(watch: GpuWatch, name: str, groups: Sequence[RateGroup]) -> Timing:
    began = time.monotonic()
    watch.poll(_ANSWER_SECONDS, groups)
    return Timing(name, time.monotonic() - began)


def _whole(watch: GpuWatch) -> GpuSnapshot:
    return watch.poll(_ANSWER_SECONDS) if watch.snapshot().library.up else watch.snapshot()
