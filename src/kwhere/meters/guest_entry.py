"""What a hypervisor's agent tells a guest of itself, and how it is written: one JSON object, integers only.

    {"format": 1, "host": "hv1", "manager": "libvirt", "unit": "<uuid>", "epoch": "<uuid>", "seq": 12,
     "time_ns": …, "utc_ns": …, "components": {"cpu": {"dynamic_uj": …, "idle_uj": …, "time_ns": …}, …}}

Counters are cumulative since the epoch began and never fall within it. `time_ns` is the host's monotonic clock: of the
entry as a whole, and of the moment up to which a component was booked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.terms import Component
from kwhere.kernel.numbers import excerpt

FORMAT = 1
MAX_BYTES = 64 * 1024
FILE_NAME = "energy.json"
PATH = "/guest"
PUBLISH_SECONDS = 10
"""How often an entry moves: finer energy gives away what others compute (CVE-2020-8694)."""
_LARGEST = 2**63 - 1
_LONGEST_TEXT = 255


@dataclass(frozen=True, slots=True)
class GuestEnergy:
    """One component of an entry: cumulative microjoules by part."""

    component: Component
    dynamic_uj: int
    idle_uj: int
    time_ns: int
    """Monotonic clock of the host up to which this component was booked."""


@dataclass(frozen=True, slots=True)
class GuestEntry:
    """A VM's own entry in its host's account."""

    host: str
    manager: str
    unit: str
    epoch: str
    seq: int
    time_ns: int
    utc_ns: int
    energies: tuple[GuestEnergy, ...]
    """In the order of components; one that the host does not measure is absent."""

    @property
    def parent(self) -> str:
        """Return `<host node>/<VM unit>`, as the ledger's header has it."""
        return f"{self.host}/{self.unit}"


def encode_entry(entry: GuestEntry) -> bytes:
    """Return the entry as one line of JSON with its newline."""
    record = {
        "format": FORMAT,
        "host": entry.host,
        "manager": entry.manager,
        "unit": entry.unit,
        "epoch": entry.epoch,
        "seq": entry.seq,
        "time_ns": entry.time_ns,
        "utc_ns": entry.utc_ns,
        "components": {
            str(energy.component): {
                "dynamic_uj": energy.dynamic_uj,
                "idle_uj": energy.idle_uj,
                "time_ns": energy.time_ns,
            }
            for energy in entry.energies
        },
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def parse_entry(data: bytes, place: str) -> GuestEntry:
    """Return the entry in `data`. Raises SourceError that starts with `place` for anything else."""
    if len(data) > MAX_BYTES:
        raise SourceError(f"{place}: expected at most {MAX_BYTES} bytes, found more")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: expected a JSON object, found {excerpt(data.decode(errors='replace'))}") from error
    fields = _object(record, place)
    if fields.get("format") != FORMAT:
        raise SourceError(f"{place}: expected format {FORMAT}, found {excerpt(str(fields.get('format')))}")
    components = _object(fields.get("components"), f"{place}: components")
    return GuestEntry(
        host=_name(fields, "host", place),
        manager=_name(fields, "manager", place),
        unit=_name(fields, "unit", place),
        epoch=_name(fields, "epoch", place),
        seq=_count(fields, "seq", place),
        time_ns=_count(fields, "time_ns", place),
        utc_ns=_count(fields, "utc_ns", place),
        energies=tuple(
            _energy(component, _object(components[component], f"{place}: {component}"), f"{place}: {component}")
            for component in Component
            if component in components
        ),
    )


def _energy(component: Component, record: Mapping[str, Any], place: str) -> GuestEnergy:
    return GuestEnergy(
        component=component,
        dynamic_uj=_count(record, "dynamic_uj", place),
        idle_uj=_count(record, "idle_uj", place),
        time_ns=_count(record, "time_ns", place),
    )


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{place}: expected an object, found {excerpt(str(type(value).__name__))}")
    return value


def _count(record: Mapping[str, Any], key: str, place: str) -> int:
    value = record.get(key)
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise SourceError(f"{place}: {key}: expected a whole number of 0 or more, found {excerpt(_shown(value))}")
    return value


def _name(record: Mapping[str, Any], key: str, place: str) -> str:
    value = record.get(key)
    is_name = isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable() and "/" not in value
    if not isinstance(value, str) or not is_name:
        raise SourceError(f"{place}: {key}: expected a name without `/`, found {excerpt(_shown(value))}")
    return value


def _shown(value: object) -> str:
    """Return what was found as a short text; a number of a million digits is not written out."""
    return f"{type(value).__name__}" if isinstance(value, int) and abs(value) > _LARGEST else repr(value)[:200]
