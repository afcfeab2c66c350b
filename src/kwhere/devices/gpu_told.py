"""What a GPU library's process has told its parent, so that a report holds only what is new."""

from dataclasses import replace

from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.devices.gpu_library import DeviceReport, FieldReport

_DEVICE = ""
"""Stands beside the uuids of instances."""


class Told:
    """What the parent knows of one device. Most quantities of a GPU stand still for minutes.

    The parent merges: what a report leaves out stands. After a new layout instances are told anew, whole.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[GpuField, int | float | Absence]] = {}

    def news(self, report: DeviceReport) -> DeviceReport:
        """Return the report without the quantities that the parent knows already."""
        if report.down:
            return report
        if report.device is not None:
            self._known = {_DEVICE: self._known.get(_DEVICE, {})}
        return replace(
            report,
            fields=self._new_fields(_DEVICE, report.fields),
            instances={uuid: self._new_fields(uuid, fields) for uuid, fields in report.instances.items()},
        )

    def _new_fields(self, place: str, fields: FieldReport) -> FieldReport:
        known = self._known.setdefault(place, {})
        values = {name: value for name, value in fields.values.items() if known.get(name) != value}
        missing = {name: why for name, why in fields.missing.items() if known.get(name) is not why}
        known.update(values)
        known.update(missing)
        return FieldReport(values, missing)
