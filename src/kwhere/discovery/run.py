"""Commands started by `run`: a directory of their own below the cgroup they were started in."""

from collections.abc import Sequence

from kwhere.discovery.match import Match, join, unit_id

MANAGER = "run"
PREFIX = "kwhere-run-"
"""Directories named PREFIX + unit are runs."""


def match(segments: Sequence[str]) -> Match | None:
    """Return the deepest run that the path belongs to."""
    for index in range(len(segments) - 1, -1, -1):
        name = segments[index].removesuffix(".scope")
        if name.startswith(PREFIX) and len(name) > len(PREFIX):
            return Match(
                manager=MANAGER,
                unit=unit_id(name.removeprefix(PREFIX)),
                path=join(segments),
                top=join(segments[: index + 1]),
                anchor=join(segments[:index]),
            )
    return None
