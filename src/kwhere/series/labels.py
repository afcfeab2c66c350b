"""Labels as one text: an order that keeps the series of a unit side by side, and makes a selector a prefix."""

import json
from collections.abc import Iterable, Mapping

ORDER = ("cluster", "manager", "unit", "run", "node")
"""Labels that come first, in this order; the others follow by name."""
_RANK = {name: f"\0{i}" for i, name in enumerate(ORDER)}
_HIGHEST = "\U0010ffff"


def _rank(pair: tuple[str, str]) -> str:
    return _RANK.get(pair[0], pair[0])


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def encode_labels(labels: Iterable[tuple[str, str]]) -> str:
    """Return `labels` as a JSON object in the store's order; empty values are no labels."""
    return json.dumps(
        {name: value for name, value in sorted(labels, key=_rank) if value}, ensure_ascii=False, separators=(",", ":")
    )


def decode_labels(text: str) -> dict[str, str]:
    """Return the labels that `encode_labels` wrote."""
    found: dict[str, str] = json.loads(text)
    return found


def fragments(labels: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return texts that an encoded label set has, and texts that it has not, where `labels` match it.

    Exact: within a value every quote is escaped, so a fragment can only match a label of its own.
    """
    present = [f"{_json(name)}:{_json(value)}" for name, value in labels.items() if value]
    absent = [f"{_json(name)}:" for name, value in labels.items() if not value]
    return present, absent


def bounds(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return bounds [low, high) of the encoded label sets that `labels` can match."""
    known = []
    for name in ORDER:
        if not labels.get(name):
            break
        known.append(f"{_json(name)}:{_json(labels[name])}")
    prefix = "{" + ",".join(known)
    return prefix, prefix + _HIGHEST


def matches(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether `labels` have every wanted value; an empty one is an absent label."""
    return all(labels.get(name, "") == value for name, value in wanted.items())
