"""Which unit an id means: `4242`, `123_4`, `123.batch`, a pod's name, MANAGER/ID, CLUSTER/ID, NAMESPACE/POD."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from kwhere.cli.client import Api, Json
from kwhere.cli.unit_questions import MOST_WAITING, ask_waiting, not_begun
from kwhere.core.errors import KwhereError, NotFound, NotPermitted, SourceError, Unavailable

MOST = 1000
SHORTEST_ID = 8
_HASH = re.compile(r"[0-9a-f-]{32,}")
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """The units that an id means, each with its newest run; `runs` counts all of one."""

    items: Sequence[Json]
    runs: int = 1
    is_group: bool = False
    """Whether they are the parts of one array or heterogeneous job, which was asked for."""


def unit_path(key: Key) -> str:
    """Return the API's path of a unit."""
    return "/units/" + "/".join(quote(part, safe="") for part in key)


def key_of(item: Json) -> Key:
    """Return cluster, manager and native id."""
    return item["cluster"], item["manager"], item["unit"]


def find_units(api: Api, ident: str, cluster: str | None, manager: str | None) -> Found:
    """Return what `ident` means. Raises NotFound, which says what waits in a queue or how to search."""
    head, slash, rest = ident.partition("/")
    matches = _search(api, ident, cluster, manager)
    if not matches and slash:
        matches = [item for item in _search(api, rest, cluster, manager) if head in _places(item)]
        ident_only = rest
    else:
        ident_only = ident
    newest: dict[Key, Json] = {}
    for item in sorted(matches, key=lambda item: str(item["started_at"])):
        newest[key_of(item)] = item
    if not newest:
        raise NotFound(_nowhere(api, ident, ident_only))
    groups = {(item["cluster"], item["manager"], group_of(item)) for item in newest.values()}
    is_group = len(newest) > 1 and len(groups) == 1 and next(iter(groups))[2] == ident_only
    return Found(list(newest.values()), len(matches), is_group)


def _search(api: Api, ident: str, cluster: str | None, manager: str | None) -> list[Json]:
    where = {"cluster": cluster, "manager": manager}
    try:
        found = list(api.pages("/units", {**where, "job": ident}, MOST))
    except (NotFound, NotPermitted, Unavailable, SourceError):
        raise
    except KwhereError:  # not written as an id: it may be a name
        found = []
    meant = [item for item in found if _is_meant(item, ident)]
    if meant:
        return meant
    # A server that does not know this question answers with any units.
    named = [item for item in api.pages("/units", {**where, "name": ident}, MOST) if ident in _names(item)]
    if named:
        return named
    holding = api.pages("/units", {**where, "q": ident}, MOST)
    return [item for item in holding if ident in _names(item) or _is_short_id(ident, item["unit"])]


def _is_short_id(ident: str, unit: str) -> bool:
    """Return whether `ident` is the beginning of a UUID or a container's hash, long enough to be meant."""
    return len(ident) >= SHORTEST_ID and unit.startswith(ident) and _HASH.fullmatch(unit) is not None


def _is_meant(item: Json, ident: str) -> bool:
    """A server that does not know this question answers with all units."""
    words = {ident, ident.partition(".")[0]}
    return "[" in ident or bool(words & {*_names(item), item["run"], group_of(item)})


def _names(item: Json) -> set[str | None]:
    labels = item.get("labels") or {}
    pod = f"{labels.get('kube_namespace')}/{labels['kube_pod']}" if labels.get("kube_pod") else None
    return {item["unit"], item["name"], labels.get("job"), labels.get("kube_pod"), pod}


def _places(item: Json) -> set[str | None]:
    labels = item.get("labels") or {}
    return {item["cluster"], item["manager"], labels.get("kube_namespace"), item.get("queue")}


def group_of(item: Json) -> str | None:
    """Return the number of the array or heterogeneous job that a unit is a part of."""
    labels = item.get("labels") or {}
    return labels.get("array_job") or labels.get("het_job") or labels.get("array_id")


def _nowhere(api: Api, ident: str, ident_only: str) -> str:
    try:
        for item in ask_waiting(api, {}, MOST_WAITING):
            if ident_only in (item["unit"], (item.get("labels") or {}).get("job")):
                return not_begun(ident, item)
    except KwhereError:  # an older server tells of no queues
        pass
    return f"unit {ident}: not found; `kwhere units -q {ident}` searches parts of ids and names"
