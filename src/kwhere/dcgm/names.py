"""Choices of how names and labels are written."""

from enum import StrEnum


class HostnameLabel(StrEnum):
    """How the label with the node's name is spelt: releases after 4.8.2 write it small."""

    UPPER = "Hostname"
    LOWER = "hostname"
    BOTH = "both"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels that are written."""
        if self is HostnameLabel.BOTH:
            return HostnameLabel.UPPER.value, HostnameLabel.LOWER.value
        return (self.value,)


class MigValues(StrEnum):
    """What becomes of values that belong to a whole GPU, while it is divided."""

    REPEAT = "repeat"
    """Each instance shows them, as dcgm-exporter does: sums are too high."""
    ONCE = "once"
    """The GPU shows them once, without GPU_I_ID."""


class MappingLabels(StrEnum):
    """Where pods and jobs are told."""

    SERIES = "series"
    """As labels of every series, as dcgm-exporter does."""
    INFO = "info"
    """As one series per GPU and holder, to join."""
    BOTH = "both"


class GpuIdType(StrEnum):
    """How a device plugin names devices."""

    UID = "uid"
    DEVICE_NAME = "device-name"
