"""Collects one round of readings of a GPU: what is known, and why the rest is not."""

from kwhere.devices.gpu_bounds import drop_impossible
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.devices.gpu_library import FieldReport

_PERCENT = 100


class FieldSink:
    """A quantity that was put once stays; one that is only missing may still be put by another source."""

    def __init__(self) -> None:
        self._values: dict[GpuField, int | float] = {}
        self._missing: dict[GpuField, Absence] = {}

    def put(self, name: GpuField, value: int | None, why: Absence = Absence.UNSUPPORTED) -> None:
        """Take a quantity in; None is missing, for the reason given."""
        if name in self._values:
            return
        if value is None:
            self._missing.setdefault(name, why)
        else:
            self._values[name] = value
            self._missing.pop(name, None)

    def put_percent(self, name: GpuField, percent: int | None) -> None:
        """Take a share of time in; what is no share (some firmware says more than 100) is not known."""
        if percent is not None and not 0 <= percent <= _PERCENT:
            self.put(name, None, Absence.BLANK)
        else:
            self.put(name, percent)

    def put_ratio(self, name: GpuField, percent: int | None) -> None:
        """Take a share of time in as a ratio."""
        if percent is not None and 0 <= percent <= _PERCENT and name not in self._values:
            self._values[name] = percent / _PERCENT
            self._missing.pop(name, None)
        elif name not in self._values:
            self._missing.setdefault(name, Absence.UNSUPPORTED if percent is None else Absence.BLANK)

    def integer(self, name: GpuField) -> int | None:
        """Return a quantity that was put; None where it was not."""
        value = self._values.get(name)
        return None if value is None else int(value)

    def report(self) -> FieldReport:
        """Return everything that can be."""
        values, missing = dict(self._values), dict(self._missing)
        drop_impossible(values, missing)
        return FieldReport(values, missing)
