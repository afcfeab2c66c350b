"""Numbers out of kernel text, strictly: what is not one is a SourceError that names the file."""

from kwhere.core.errors import SourceError

_LONGEST = 20  # digits of the largest unsigned 64-bit number


def excerpt(text: str) -> str:
    """Return `text` quoted and short enough for a message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def decimal(word: str, place: str) -> int:
    """Return the decimal number `word`, a sign allowed. Raises SourceError that starts with `place`."""
    digits = word[1:] if word[:1] == "-" else word
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _LONGEST:
        raise SourceError(f"{place}: expected a decimal number, found {excerpt(word)}")
    return int(word)


def counter(word: str, place: str) -> int:
    """Return the number `word`, never negative. Raises SourceError that starts with `place`."""
    value = decimal(word, place)
    if value < 0:
        raise SourceError(f"{place}: expected a number of 0 or more, found {excerpt(word)}")
    return value


def fraction(word: str, place: str, digits: int) -> int:
    """Return `word`, a decimal fraction such as `12.34`, times 10^`digits`, cut off. Raises SourceError."""
    whole, _, rest = word.partition(".")
    if rest and not (rest.isascii() and rest.isdigit()):
        raise SourceError(f"{place}: expected a decimal fraction, found {excerpt(word)}")
    scale: int = 10**digits
    return counter(whole, place) * scale + int(rest[:digits].ljust(digits, "0") or "0")


def cpu_list(text: str, place: str, limit: int = 65536) -> tuple[int, ...]:
    """Return the CPU numbers of a kernel list such as `0-3,8,10-11`, sorted; empty for an empty list."""
    found: set[int] = set()
    for piece in text.strip().split(","):
        if not piece:
            continue
        first, dash, last = piece.partition("-")
        start = counter(first, place)
        end = counter(last, place) if dash else start
        if end < start or end >= limit:
            raise SourceError(f"{place}: expected a list of CPUs below {limit}, found {excerpt(piece)}")
        found.update(range(start, end + 1))
    return tuple(sorted(found))
