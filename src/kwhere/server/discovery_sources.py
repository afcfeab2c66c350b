"""The places of discovery of a target group: files, an HTTP address, names to look up."""

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from kwhere.core.errors import SourceError
from kwhere.server.discovered import Discovered, look_up, parse_groups, parse_json, read_file
from kwhere.server.settings import TargetGroup
from kwhere.transport.http import HttpClient

_REFRESH_HEADER = "X-Prometheus-Refresh-Interval-Seconds"


@dataclass(frozen=True, slots=True)
class Source:
    """One place of discovery and how it is asked."""

    name: str
    ask: Callable[[], list[Discovered]]
    """Raises KwhereError."""
    server_name: str | None = None
    """Name that the certificates of what it finds must carry: the one that was looked up."""


def sources_of(group: TargetGroup) -> Iterator[Source]:
    """Yield the sources there are now: files come and go where a pattern names them."""
    for pattern in group.files:
        paths = sorted(pattern.parent.glob(pattern.name)) if glob.has_magic(pattern.name) else [pattern]
        for path in paths:
            yield Source(f"{group.name} file {path}", partial(read_file, path))
    if group.http is not None:
        yield Source(f"{group.name} http", partial(_ask, group, group.http))
    for name in group.dns:
        yield Source(f"{group.name} dns {name}", partial(look_up, name), name.rpartition(":")[0].strip("[]"))


def _ask(group: TargetGroup, address: str) -> list[Discovered]:
    parts = urlsplit(address)
    place = f"server.targets.{group.name}.http"
    headers = {"Accept": "application/json", _REFRESH_HEADER: f"{group.refresh_seconds:g}"}
    with HttpClient(f"{parts.scheme}://{parts.netloc}", group.http_client) as client:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        answer = client.get(path, headers=headers)
    if answer.status != 200:
        raise SourceError(f"{place}: expected status 200, found {answer.status}")
    return parse_groups(parse_json(answer.body, place), place)
