"""Reading the ledger's wire format, strictly: what is not what the format says raises WireError with its place."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from kwhere import __version__
from kwhere.core.errors import IntakeRefused, UnknownFormat, WireError
from kwhere.core.terms import Component, Flag, Method
from kwhere.ledger.decode_entries import entry_reader
from kwhere.ledger.json_values import excerpt, integer, optional_integer, optional_text, text, text_list
from kwhere.ledger.pages import FORMAT, Page, PageHeader, SlotLine
from kwhere.ledger.rows import Control, Slot
from kwhere.ledger.wire import digest, parse_cursor

_SLOT_KEYS = {"seq", "prev", "start", "end", "monotonic_ns", "flags", "control", "entries"}
_CONTROL_KEYS = {"uj", "span_ns", "method", "source"}
_FLAGS = {str(flag): flag for flag in Flag}


def decode_page(body: bytes) -> Page:
    """Return header and slots of a whole page; their order, chain and end are checked. Raises WireError."""
    header, lines = decode_lines(body, decode_slot)
    return Page(header, tuple(lines))


def decode_lines(
    body: bytes, decode: Callable[[bytes, Sequence[str]], SlotLine]
) -> tuple[PageHeader, Sequence[SlotLine]]:
    """Return what `decode_page` does, each line read by `decode` from its bytes and the page's columns."""
    if not body.endswith(b"\n"):
        raise WireError("page: truncated, expected a newline at its end")
    first, *rest = body[:-1].split(b"\n")
    header = decode_header(first)
    lines: list[SlotLine] = []
    for number, line in enumerate(rest, start=2):
        try:
            lines.append(decode(line, header.columns))
            _check_order(header, lines)
        except WireError as error:
            raise WireError(f"page line {number}: {error}") from error
    _check_end(header, lines)
    return header, lines


def decode_header(line: bytes) -> PageHeader:
    """Return the header of a page. Raises UnknownFormat, which names both versions, or WireError."""
    record = _object(line, "header")
    version = text(record.get("version"), "header version")
    if integer(record.get("format"), "header format") != FORMAT:
        raise UnknownFormat(
            f"header: expected ledger format {FORMAT} (this is version {__version__}),"
            f" found format {record['format']} of version {excerpt(version)}"
        )
    header = PageHeader(
        format=FORMAT,
        node=text(record.get("node"), "header node"),
        node_names=text_list(record.get("node_names"), "header node_names"),
        machine_id=text(record.get("machine_id"), "header machine_id"),
        boot_id=text(record.get("boot_id"), "header boot_id"),
        parent=optional_text(record.get("parent"), "header parent"),
        epoch=text(record.get("epoch"), "header epoch"),
        oldest=optional_integer(record.get("oldest"), "header oldest"),
        newest=optional_integer(record.get("newest"), "header newest"),
        epochs=text_list(record.get("epochs"), "header epochs"),
        next=optional_text(record.get("next"), "header next"),
        slot_seconds=integer(record.get("slot_seconds"), "header slot_seconds"),
        idle_policy=text(record.get("idle_policy"), "header idle_policy"),
        cpus=integer(record.get("cpus"), "header cpus"),
        p_max_mw=_powers(record.get("p_max_mw")),
        columns=text_list(record.get("columns"), "header columns"),
        version=version,
    )
    _check_header(header)
    return header


def decode_slot(line: bytes, columns: Sequence[str]) -> SlotLine:
    """Return the slot of `line` (without newline), whose entries have `columns`. Raises WireError."""
    frame, rows = decode_frame(line)
    entries, unknown = entry_reader(tuple(columns)).read(rows, f"slot {frame.slot.seq}")
    return replace(frame, slot=replace(frame.slot, entries=entries), unknown=unknown)


def decode_frame(line: bytes) -> tuple[SlotLine, object]:
    """Return the slot of `line` without its entries, and these as they stand there. Raises WireError."""
    record = _object(line, "slot")
    if record.keys() != _SLOT_KEYS:
        raise WireError(f"slot: expected the keys {sorted(_SLOT_KEYS)}, found {excerpt(sorted(record))}")
    seq = integer(record["seq"], "slot seq")
    place = f"slot {seq}"
    controls, node_busy_ns = _control_record(record["control"], place)
    slot = Slot(
        seq=seq,
        start_ns=integer(record["start"], f"{place} start"),
        end_ns=integer(record["end"], f"{place} end"),
        monotonic_ns=integer(record["monotonic_ns"], f"{place} monotonic_ns"),
        controls=controls,
        entries=(),
        node_busy_ns=node_busy_ns,
        flags=_flags(record["flags"], place),
    )
    if seq < 1 or slot.end_ns <= slot.start_ns:
        raise WireError(f"{place}: expected seq from 1 and start before end, found {slot.start_ns} to {slot.end_ns}")
    return SlotLine(slot, _prev(record["prev"], place), digest(line), {}, line), record["entries"]


def check_follows(page: Page, held_digest: str | None) -> None:
    """Raise IntakeRefused unless the first slot of `page` names `held_digest` as its predecessor's."""
    if page.lines and page.lines[0].prev != held_digest:
        raise IntakeRefused(
            f"slot {page.lines[0].slot.seq} of epoch {page.header.epoch}: expected a predecessor with digest"
            f" {held_digest}, found {page.lines[0].prev}: another journal, or one that was rewritten"
        )


def _object(line: bytes, place: str) -> dict[str, object]:
    try:
        record = json.loads(
            line.decode("utf-8"),
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
            object_pairs_hook=_without_repeats,
        )
    except WireError as error:
        raise WireError(f"{place}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise WireError(f"{place}: expected a line of JSON, found {excerpt(line)} ({error})"[:400]) from error
    if not isinstance(record, dict):
        raise WireError(f"{place}: expected a JSON object, found {excerpt(record)}")
    return record


def _refuse_number(number: str) -> NoReturn:
    raise WireError(f"expected integers only, found {excerpt(number)}")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise WireError(f"expected each key once, found {excerpt([name for name, _ in pairs])}")
    return record


def _powers(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise WireError(f"header p_max_mw: expected an object, found {excerpt(value)}")
    return {name: integer(power, f"header p_max_mw {excerpt(name)}") for name, power in value.items()}


def _check_header(header: PageHeader) -> None:
    if header.epoch not in header.epochs or len(set(header.epochs)) != len(header.epochs):
        raise WireError(f"header epochs: expected epoch {header.epoch} once, found {excerpt(header.epochs)}")
    if (header.oldest is None) != (header.newest is None) or (header.oldest or 0) > (header.newest or 0):
        raise WireError(f"header: expected oldest up to newest, found {header.oldest} and {header.newest}")
    if header.next is not None and parse_cursor(header.next).epoch not in header.epochs:
        raise WireError(f"header next: expected a cursor of a listed epoch, found {excerpt(header.next)}")
    entry_reader(header.columns)


def _control_record(value: object, place: str) -> tuple[tuple[Control, ...], int | None]:
    if not isinstance(value, dict) or "node_busy_ns" not in value:
        raise WireError(f"{place} control: expected an object with node_busy_ns, found {excerpt(value)}")
    controls = tuple(_control(name, item, place) for name, item in value.items() if name != "node_busy_ns")
    return controls, optional_integer(value["node_busy_ns"], f"{place} node_busy_ns")


def _control(component: str, value: object, place: str) -> Control:
    place = f"{place} control {excerpt(component)}"
    if not isinstance(value, dict) or value.keys() != _CONTROL_KEYS:
        raise WireError(f"{place}: expected the keys {sorted(_CONTROL_KEYS)}, found {excerpt(value)}")
    try:
        known, method = Component(component), Method(text(value["method"], place))
    except ValueError as error:
        raise WireError(f"{place}: {error}") from error
    return Control(
        component=known,
        energy_uj=integer(value["uj"], f"{place} uj"),
        span_ns=integer(value["span_ns"], f"{place} span_ns"),
        method=method,
        source=text(value["source"], f"{place} source"),
    )


def _flags(value: object, place: str) -> frozenset[Flag]:
    """Words of a later version are left out here; they stay in the line."""
    return frozenset(_FLAGS[word] for word in text_list(value, f"{place} flags") if word in _FLAGS)


def _prev(value: object, place: str) -> str | None:
    prev = optional_text(value, f"{place} prev")
    if prev is not None and (len(prev) != 64 or set(prev) - set("0123456789abcdef")):
        raise WireError(f"{place} prev: expected a SHA-256 in hex, found {excerpt(prev)}")
    return prev


def _check_order(header: PageHeader, lines: Sequence[SlotLine]) -> None:
    newest = lines[-1].slot.seq
    if header.oldest is None or header.newest is None or not header.oldest <= newest <= header.newest:
        raise WireError(f"slot {newest}: the header says that {header.oldest} to {header.newest} are held")
    if len(lines) == 1:
        return
    before = lines[-2]
    if newest != before.slot.seq + 1:
        raise WireError(f"slot {newest}: expected slot {before.slot.seq + 1} here")
    if lines[-1].prev != before.digest:
        raise WireError(f"slot {newest} prev: expected {before.digest}, the digest of the line before")


def _check_end(header: PageHeader, lines: Sequence[SlotLine]) -> None:
    if not lines:
        return
    last = lines[-1].slot.seq
    following = header.epochs[header.epochs.index(header.epoch) + 1 :]
    expected = f"{following[0]}:0" if following and last == header.newest else f"{header.epoch}:{last}"
    if header.next != expected:
        raise WireError(f"page: truncated or padded, its last slot is {last} and its header's next {header.next}")
