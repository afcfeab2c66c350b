"""Writing the ledger's wire format: canonical slot lines, their digests, page headers, cursors (see pages.py)."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from operator import attrgetter

from kwhere.core.errors import WireError
from kwhere.ledger.gpu_uses import NUMBER_NAMES, TEXT_NAMES, GpuUse, encode_gpus
from kwhere.ledger.pages import Cursor, PageHeader
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS, Control, Entry, Slot

LARGEST_INTEGER = 2**63 - 1
"""Every store behind the wire keeps signed 64-bit integers."""

_NUMBERS = attrgetter(*NUMBER_COLUMNS)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CURSOR = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(0|[1-9][0-9]{0,17})")


def encode_slot(slot: Slot, prev: str | None) -> bytes:
    """Return the canonical line of `slot`, without newline. Raises WireError where a number is no integer."""
    return _canonical(
        {
            "seq": _integer(slot.seq, "seq"),
            "prev": prev,
            "start": _integer(slot.start_ns, "start"),
            "end": _integer(slot.end_ns, "end"),
            "monotonic_ns": _integer(slot.monotonic_ns, "monotonic_ns"),
            "flags": sorted(slot.flags),
            "control": _control(slot.controls, slot.node_busy_ns),
            "entries": [_row(entry) for entry in slot.entries],
        }
    )


def digest(line: bytes) -> str:
    """Return the SHA-256 of a slot's line as served, without its newline, in hex."""
    return hashlib.sha256(line).hexdigest()


def encode_header(header: PageHeader) -> bytes:
    """Return line 1 of a page, without newline."""
    return _canonical(asdict(header))


def encode_page(header: PageHeader, lines: Iterable[bytes]) -> bytes:
    """Return a whole page: the header and the slots' lines, each ended by a newline."""
    return b"\n".join([encode_header(header), *lines, b""])


def parse_cursor(text: str) -> Cursor:
    """Return the cursor written `EPOCH:SEQ`. Raises WireError."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise WireError(f"cursor: expected EPOCH:SEQ with a lower-case uuid and a number, found {text[:80]!r}")
    return Cursor(found[1], int(found[2]))


def clean_text(text: str) -> str:
    """Return `text` as every store can hold it: undecodable bytes and NUL become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def _canonical(record: dict[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _control(controls: Iterable[Control], node_busy_ns: int | None) -> dict[str, object]:
    record: dict[str, object] = {
        str(control.component): {
            "uj": _integer(control.energy_uj, f"control {control.component} uj"),
            "span_ns": _integer(control.span_ns, f"control {control.component} span_ns"),
            "method": str(control.method),
            "source": clean_text(control.source),
        }
        for control in sorted(controls, key=_control_order)
    }
    record["node_busy_ns"] = _number(node_busy_ns, "node_busy_ns")
    return record


def _control_order(control: Control) -> int:
    return list(type(control.component)).index(control.component)


def _row(entry: Entry) -> list[object]:
    key, figures = entry.key, entry.figures
    identity = (key.manager, key.unit, key.run) if key else (None, None, None)
    row: list[object] = [str(entry.kind)]
    row += map(_text, (*identity, entry.name, entry.user, entry.project, entry.node_name))
    row.append({clean_text(name): clean_text(value) for name, value in entry.labels})
    row.append(sorted(entry.flags))
    numbers = [*map(figures.energy_uj.get, ENERGY_COLUMNS), *_NUMBERS(figures)]
    for number in numbers:
        if number is not None and (type(number) is not int or not 0 <= number <= LARGEST_INTEGER):
            _integer(number, f"entry {key.manager} {key.run}" if key else f"entry {entry.kind}")
    place = f"{key.manager} {key.run}" if key else str(entry.kind)
    return [*row, *numbers, encode_gpus([_clean_gpu(use, place) for use in entry.gpus])]


def _clean_gpu(use: GpuUse, place: str) -> GpuUse:
    for name in NUMBER_NAMES:
        _number(getattr(use, name), f"entry {place} gpu {use.device} {name}")
    return replace(use, **{name: clean_text(getattr(use, name)) for name in TEXT_NAMES})  # type: ignore[arg-type]


def _text(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _number(value: int | None, place: str) -> int | None:
    return None if value is None else _integer(value, place)


def _integer(value: int, place: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise WireError(f"{place}: expected an integer from 0 to 2^63 - 1, found {value!r}")
    return value
