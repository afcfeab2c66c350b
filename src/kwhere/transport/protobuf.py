"""Reads protocol buffers without a schema: numbered fields, as the wire has them (protobuf.dev, "Encoding")."""

from collections.abc import Iterator

from kwhere.core.errors import SourceError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def fields(data: bytes, place: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: whole numbers as unsigned, text and messages as bytes.

    Raises SourceError for anything that ends early or is of no known form.
    """
    position = 0
    while position < len(data):
        key, position = _varint(data, position, place)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise SourceError(f"{place}: expected a field number, found 0 at byte {position}")
        if kind == _VARINT:
            value, position = _varint(data, position, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(data, position, place)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if length < 0 or position + length > len(data):
            raise SourceError(f"{place}: expected a field that ends within {len(data)} bytes, found kind {kind}")
        piece = data[position : position + length]
        position += length
        yield number, piece if kind == _BYTES else int.from_bytes(piece, "little")


def texts(data: bytes, place: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each field that holds bytes; those that are not UTF-8 show as U+FFFD."""
    for number, value in fields(data, place):
        if isinstance(value, bytes):
            yield number, value.decode(errors="replace")


def messages(data: bytes, wanted: int, place: str) -> Iterator[bytes]:
    """Yield the messages of one repeated field."""
    for number, value in fields(data, place):
        if number == wanted and isinstance(value, bytes):
            yield value


def _varint(data: bytes, position: int, place: str) -> tuple[int, int]:
    value = 0
    for length in range(_LONGEST_VARINT):
        if position + length >= len(data):
            break
        byte = data[position + length]
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + length + 1
    raise SourceError(f"{place}: expected a number of at most {_LONGEST_VARINT} bytes at byte {position}")
