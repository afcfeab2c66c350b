"""From a library's reports to the snapshot that everybody reads. Pure but for its memory; used under one lock."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kwhere.devices.gpu import (
    DeviceState,
    EventWatch,
    GpuDevice,
    GpuProcess,
    GpuSnapshot,
    InstanceState,
    LibraryState,
    LinkReadings,
    Readings,
    Vendor,
    XidCount,
    pci_address,
)
from kwhere.devices.gpu_activity import OutsideActivity, with_activity
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceReport, EventsWatched, FieldReport, Opened, XidEvent
from kwhere.devices.xid import XidLine

ABSENT = "absent"
"""Reason of a device that was there once and that the library does not count any more."""

UNKNOWN = "unknown"
"""Model, and start of the uuid, of a device that never told who it is."""


@dataclass(slots=True)
class _Reading:
    """What is known of one device or instance, merged over its rate groups."""

    time_ns: int = 0
    medium_ns: int = 0
    values: dict[GpuField, int | float] = field(default_factory=dict)
    missing: dict[GpuField, Absence] = field(default_factory=dict)

    def take(self, report: FieldReport, time_ns: int, group: RateGroup) -> None:
        """Merge a report in. The mappings are made anew, never changed: whoever has a snapshot keeps it."""
        values, missing = report.values, report.missing
        if values:
            self.values = {**self.values, **values}
            if not self.missing.keys().isdisjoint(values):
                self.missing = {name: why for name, why in self.missing.items() if name not in values}
        if missing:
            self.missing = {**self.missing, **missing}
            if not self.values.keys().isdisjoint(missing):
                self.values = {name: value for name, value in self.values.items() if name not in missing}
        if group is RateGroup.FAST:
            self.time_ns = time_ns
        elif group is RateGroup.MEDIUM:
            self.medium_ns = time_ns

    def frozen(self) -> Readings:
        return Readings(self.time_ns, self.values, self.missing, self.medium_ns)


@dataclass(slots=True)
class _Device:
    device: GpuDevice
    reason: str = ""
    read: bool = False
    reading: _Reading = field(default_factory=_Reading)
    instances: dict[str, _Reading] = field(default_factory=dict)
    processes: tuple[GpuProcess, ...] | None = None
    processes_missing: Absence | None = None
    links: tuple[LinkReadings, ...] = ()
    xids: dict[tuple[int, int | None], XidCount] = field(default_factory=dict)

    def state(self, library_reason: str, outside: OutsideActivity | None) -> DeviceState:
        reason = self.reason or library_reason
        uuid = self.device.uuid
        return DeviceState(
            device=self.device,
            up=not reason and self.read,
            reason=reason,
            readings=with_activity(self.reading.frozen(), outside, uuid) if self.read else None,
            instances=tuple(
                InstanceState(
                    instance,
                    with_activity(
                        self.instances.get(instance.uuid, _Reading()).frozen(), outside, uuid, instance.gpu_instance
                    ),
                )
                for instance in self.device.instances
            ),
            processes=self.processes,
            processes_missing=self.processes_missing,
            links=self.links,
            xids=tuple(self.xids[key] for key in sorted(self.xids, key=_xid_order)),
        )


class GpuBoard:
    """All devices of one vendor that were ever seen, with what was last read of each."""

    def __init__(self, vendor: Vendor, known: Iterable[GpuDevice] = ()) -> None:
        """`known` are devices of earlier days: one that is missing now is shown as absent."""
        self._vendor = vendor
        self._library = LibraryState()
        self._answered = False
        self._events: EventWatch | None = None
        self._outside: OutsideActivity | None = None
        self._devices = {device.uuid: _Device(device, ABSENT) for device in known}

    def opened(self, message: Opened) -> None:
        """Take in the devices there are now."""
        self._answered = True
        self._library = LibraryState(True, "", "", message.driver, message.version, message.cuda)
        self._devices = {uuid: found for uuid, found in self._devices.items() if found.device.model != UNKNOWN}
        newest = {found.device.index: uuid for uuid, found in self._devices.items()}  # a board may have been replaced
        for uuid, found in self._devices.items():
            index = found.device.index
            found.reason = message.unreadable.get(index, ABSENT) if newest[index] == uuid else ABSENT
        for device in message.devices:
            known = self._devices.setdefault(device.uuid, _Device(device))
            known.device, known.reason = device, ""
        seen = {found.device.index for found in self._devices.values()}
        for index, reason in message.unreadable.items():
            if index not in seen:  # counted, and nobody ever learned who it is
                nameless = GpuDevice(f"{UNKNOWN}-{index}", index, self._vendor, UNKNOWN)
                self._devices[nameless.uuid] = _Device(nameless, reason)

    def failed(self, reason: str, message: str) -> None:
        """Take in that the library does not answer, or is not asked; versions stay."""
        self._answered = True
        self._library = replace(self._library, up=False, reason=reason, message=message)

    def report(self, report: DeviceReport) -> None:
        """Take in one device's report; of a device that nobody knows there is none."""
        found = self._devices.get(report.uuid)
        if found is None:
            return
        found.reason = report.down
        if report.down:
            return
        if report.device is not None:
            found.device = report.device
            kept = {instance.uuid for instance in report.device.instances}
            found.instances = {uuid: reading for uuid, reading in found.instances.items() if uuid in kept}
        is_fast = report.group is RateGroup.FAST
        found.read = found.read or is_fast
        found.reading.take(report.fields, report.time_ns, report.group)
        for uuid, fields in report.instances.items():
            found.instances.setdefault(uuid, _Reading()).take(fields, report.time_ns, report.group)
        if is_fast:
            found.processes, found.processes_missing = report.processes, report.processes_missing
        if report.links is not None:
            found.links = report.links

    def hangs(self, uuid: str) -> None:
        """Note that a device has not answered in time."""
        if uuid in self._devices:
            self._devices[uuid].reason = "timeout"

    def event(self, event: XidEvent) -> None:
        """Count one XID."""
        found = self._devices.get(event.uuid)
        if found is not None:
            _count(found.xids, event.xid, event.gpu_instance, event.utc_ns)

    def past_event(self, line: XidLine, utc_ns: int) -> None:
        """Count one XID that the kernel's log tells."""
        for found in self._devices.values():
            if pci_address(found.device.pci).partition(".")[0] == line.pci.partition(".")[0]:
                _count(found.xids, line.xid, line.gpu_instance, utc_ns)

    def events(self, message: EventsWatched) -> None:
        """Take in whether events are told."""
        self._events = EventWatch(message.up, message.message)

    def outside(self, found: OutsideActivity | None) -> bool:
        """Take in what a service beside the library tells; return whether that is news."""
        is_news = found is not self._outside
        self._outside = found
        return is_news

    def uuids(self) -> tuple[str, ...]:
        """Return the devices that the library counts now."""
        return tuple(uuid for uuid, found in self._devices.items() if found.reason != ABSENT)

    def snapshot(self) -> GpuSnapshot:
        """Return everything as it stands."""
        reason = "" if self._library.up else self._library.reason
        states = [found.state(reason, self._outside) for found in self._devices.values()]
        ordered = sorted(states, key=lambda state: (state.device.index, state.device.uuid))
        return GpuSnapshot(self._vendor, self._library, tuple(ordered), self._answered, self._events)


def _count(xids: dict[tuple[int, int | None], XidCount], xid: int, gpu_instance: int | None, utc_ns: int) -> None:
    before = xids.get((xid, gpu_instance), XidCount(xid, 0, 0, gpu_instance))
    last_ns = max(before.last_utc_ns, utc_ns)
    xids[xid, gpu_instance] = replace(before, count=before.count + 1, last_utc_ns=last_ns)


def _xid_order(key: tuple[int, int | None]) -> tuple[int, int]:
    xid, gpu_instance = key
    return xid, -1 if gpu_instance is None else gpu_instance
