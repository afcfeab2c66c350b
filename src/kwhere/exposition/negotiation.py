"""What a scraper asked for: the text format by its Accept header, gzip by its Accept-Encoding."""

from dataclasses import dataclass

from kwhere.exposition.text import Format

_MAX_RANGES = 64
_OPENMETRICS = {"": Format.OPENMETRICS_1, "1.0.0": Format.OPENMETRICS_1, "0.0.1": Format.OPENMETRICS_0}


@dataclass(frozen=True, slots=True)
class _Range:
    """One item of an Accept header."""

    name: str
    parameters: dict[str, str]
    quality: float


def choose_format(accept: str) -> Format:
    """Return the format that `accept` likes best; text where it names none of ours, since a page is better than none.

    Ties go to the one that is named first.
    """
    offers = [(item.quality, -position, _format_of(item)) for position, item in enumerate(_ranges(accept))]
    liked = [offer for offer in offers if offer[2] is not None and offer[0] > 0]
    best = max(liked, key=lambda offer: offer[:2], default=None)
    return best[2] if best and best[2] else Format.TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the answer may be compressed with gzip; `*` counts, `q=0` forbids."""
    qualities = {item.name: item.quality for item in _ranges(accept_encoding)}
    return qualities.get("gzip", qualities.get("x-gzip", qualities.get("*", 0.0))) > 0


def _format_of(item: _Range) -> Format | None:
    version = item.parameters.get("version", "")
    if item.name == "application/openmetrics-text":
        return _OPENMETRICS.get(version)
    if item.name in ("text/plain", "text/*", "*/*") and version in ("", "0.0.4"):
        return Format.TEXT
    return None


def _ranges(header: str) -> list[_Range]:
    """Return the items of a header; what cannot be read is left out."""
    found = []
    for item in header.split(",", _MAX_RANGES)[:_MAX_RANGES]:
        name, *parameters = (part.strip() for part in item.split(";"))
        pairs = dict(_pair(parameter) for parameter in parameters)
        quality = _quality(pairs.get("q", "1"))
        if name and quality is not None:
            found.append(_Range(name.lower(), pairs, quality))
    return found


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _quality(text: str) -> float | None:
    whole, _, places = text.partition(".")
    if whole in ("0", "1") and (places == "" or (places.isascii() and places.isdigit() and len(places) <= 3)):
        quality = float(text)
        return quality if quality <= 1 else None
    return None
