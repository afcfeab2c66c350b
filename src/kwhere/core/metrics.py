"""What a collector may emit: specs that are checked when they are built, and samples of them."""

import re
from dataclasses import dataclass
from enum import StrEnum

FORBIDDEN_LABELS = frozenset({"instance", "job", "namespace", "pod", "container", "node", "service", "endpoint"})
"""Set by a scrape; a native metric that carried one would be renamed `exported_…`."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")


class Kind(StrEnum):
    """The kinds of the Prometheus text format that kwhere uses."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric family, declared before it runs: name, kind, help, labels. Raises ValueError off convention.

    Counters, and only counters, end in `_total`; infos end in `_info` and have the value 1.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    is_borrowed: bool = False
    """Whether others read it by labels that a scrape sets too; such a page is scraped with `honor_labels`."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"metric {self.name!r}: expected lower-case letters, digits and underscores")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name}: counters, and only counters, end in _total")
        if (self.kind is Kind.INFO) != self.name.endswith("_info"):
            raise ValueError(f"metric {self.name}: infos, and only infos, end in _info")
        if not self.help:
            raise ValueError(f"metric {self.name}: has no help")
        for label in self.labels:
            is_reserved = label in FORBIDDEN_LABELS and not self.is_borrowed
            if is_reserved or label.startswith("exported_") or not _LABEL.fullmatch(label):
                raise ValueError(f"metric {self.name}: label {label!r} is reserved or not well formed")

    @property
    def family(self) -> str:
        """Return the name without `_total` or `_info`: that of the OpenMetrics family."""
        return self.name.removesuffix("_total" if self.kind is Kind.COUNTER else "_info")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a family.

    `labels` are values in the order of `spec.labels`; an empty one is left out of the exposition.
    `created_s` (Unix seconds) is given for counters that kwhere itself accumulates.
    """

    spec: MetricSpec
    labels: tuple[str, ...]
    value: float | int
    created_s: float | None = None
