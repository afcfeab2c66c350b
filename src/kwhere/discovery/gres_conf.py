"""SLURM's generic resources (gres.conf(5)): which GPU a bit of `SLURM_JOB_GPUS` is, and how many shards it has."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kwhere.devices.gpu_mapping_settings import SlurmOrder
from kwhere.discovery.gpu_names import GpuNames, Place

_KEY = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")
_COUNT = re.compile(r"([0-9]{1,9})([KMG]?)", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_MOST_NAMES = 4096


class GresKind(StrEnum):
    """Kinds of generic resources that are GPUs or parts of them."""

    GPU = "gpu"
    SHARD = "shard"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class GresLine:
    """One line of gres.conf that is about GPUs here."""

    kind: GresKind
    files: tuple[str, ...] = ()
    """A device each; with `together` one device whose files these are (a MIG instance)."""
    together: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True)
class GresBits:
    """GPUs in the order of SLURM's bits, and shards per GPU."""

    order: tuple[tuple[Place, ...], ...] = ()
    shards: Mapping[Place, int] = field(default_factory=dict)

    def places(self, bit: int) -> tuple[Place, ...]:
        """Return what a bit stands for; nothing for one beyond the last."""
        return self.order[bit] if 0 <= bit < len(self.order) else ()

    def shards_of(self, place: Place) -> int | None:
        """Return how many shards a GPU has; None: not known."""
        return self.shards.get(place)


def parse_gres_conf(text: str, node_names: Collection[str] = ()) -> tuple[GresLine, ...]:
    """Return the lines about GPUs, shards and MPS that are for one of these nodes. Lines of another form are left out.

    A `NodeName` at the front restricts a line; without any name of our own, every line counts.
    """
    found = []
    for line in _lines(text):
        keys = {key.lower(): value.strip("\"'") for key, value in _KEY.findall(line)}
        nodes = keys.get("nodename")
        if nodes and node_names and not set(node_names) & set(expand(nodes)):
            continue
        made = _line(keys)
        if made is not None:
            found.append(made)
    return tuple(found)


def gres_bits(names: GpuNames, lines: Sequence[GresLine], order: SlurmOrder) -> GresBits:
    """Return the bits: by gres.conf's files where it names them and `order` is auto, else by PCI address or minor."""
    given = [line for line in lines if line.kind is GresKind.GPU and line.files]
    if order is SlurmOrder.AUTO and given:
        places = tuple(_by_files(names, given))
    else:
        places = tuple((place,) for place in names.one_by_one(by_minor=order is SlurmOrder.MINOR))
    return GresBits(places, _shards(names, lines, places))


def expand(text: str) -> list[str]:
    """Return the names of a list as `tux[00-15,20],login`; at most 4096."""
    found: list[str] = []
    for item in _split(text):
        found.extend(_expand_one(item, _MOST_NAMES - len(found)))
        if len(found) >= _MOST_NAMES:
            break
    return found[:_MOST_NAMES]


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        words = line.partition("#")[0].strip()
        if words:
            yield words


def _line(keys: Mapping[str, str]) -> GresLine | None:
    try:
        kind = GresKind(keys.get("name", "").lower())
    except ValueError:
        return None
    several = keys.get("multiplefiles")
    files = tuple(expand(several or keys.get("file", "")))
    count = _COUNT.fullmatch(keys.get("count", ""))
    return GresLine(kind, files, several is not None, int(count[1]) * _FACTORS[count[2].upper()] if count else None)


def _by_files(names: GpuNames, lines: Sequence[GresLine]) -> Iterator[tuple[Place, ...]]:
    """Yield the devices of lines with files. SLURM sorts them by the number in the file's name, MIG ones after it."""
    records: list[tuple[tuple[int, ...], tuple[Place, ...]]] = []
    for line in lines:
        groups = [line.files] if line.together else [(file,) for file in line.files]
        for files in groups:
            found = [place for file in files for place in names.by_file(file)]
            inside = tuple(dict.fromkeys(place for place in found if place.instance))
            records.append((tuple(map(_file_number, files)), inside or tuple(dict.fromkeys(found))))
    yield from (places for _, places in sorted(records, key=lambda record: record[0]))


def _shards(names: GpuNames, lines: Sequence[GresLine], order: Sequence[tuple[Place, ...]]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for line in lines:
        if line.kind is not GresKind.SHARD or not line.count:
            continue
        places = [place for file in line.files for place in names.by_file(file)]
        places = places or [place for several in order for place in several]
        for place in places:
            found[place] = found.get(place, 0) + line.count // len(places)
    return found


def _file_number(path: str) -> int:
    digits = re.search(r"([0-9]{1,9})$", path)
    return int(digits[1]) if digits else -1


def _split(text: str) -> Iterator[str]:
    """Yield the items of a list; commas within brackets belong to them."""
    depth, item = 0, ""
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth <= 0:
            if item:
                yield item
            item = ""
        else:
            item += sign
    if item:
        yield item


def _expand_one(item: str, most: int) -> list[str]:
    found = _BRACKETS.search(item)
    if found is None:
        return [item]
    rest = _expand_one(item[found.end() :], most)
    heads = [item[: found.start()] + word for word in _range_words(found[1], most)]
    return [head + tail for head in heads for tail in rest][:most]


def _range_words(text: str, most: int) -> list[str]:
    words: list[str] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash or not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            words.append(part)
        elif len(first) < 10 and len(last) < 10:
            numbers = range(int(first), min(int(last), int(first) + most) + 1)
            words.extend(str(number).zfill(len(first)) for number in numbers)
    return words[:most]
