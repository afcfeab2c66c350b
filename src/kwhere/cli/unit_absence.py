"""Why a list of units is empty: nothing there, not permitted, or its manager cannot be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from kwhere.cli.client import Api, Json
from kwhere.cli.unit_questions import ask_waiting, not_begun, several
from kwhere.cli.unit_values import local_time, shown_id
from kwhere.core.errors import KwhereError, NotFound, NotPermitted

MOST_NAMED = 20
"""So many that wait are named one by one."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Sentences for a person; `is_failure`: what was asked for by name is not there, or not for the asker."""

    lines: tuple[str, ...]
    is_failure: bool
    is_denied: bool = False

    @property
    def error(self) -> KwhereError | None:
        """Return it as an error; None where an empty list is the answer."""
        if not self.is_failure:
            return None
        return (NotPermitted if self.is_denied else NotFound)("; ".join(self.lines))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for beside the filters."""

    jobs: str | None = None
    window: str = ""
    is_waiting: bool = False
    """Whether only what waits in queues was."""

    @property
    def sentence(self) -> str:
        """Return that there is nothing of it."""
        if self.jobs:
            return f"no unit has one of the ids {self.jobs}"
        if self.is_waiting:
            return "nothing waits in a queue that is read"
        if self.window:
            return f"no units match that were alive {self.window}"
        return "no units match; a new one shows after its first slot"


def why_nothing(api: Api, filters: Mapping[str, str | None], wanted: Wanted) -> Absence:
    """Return why nothing matches, as far as the server can tell."""
    denied = why_not(api, filters)
    if denied is not None:
        return Absence((denied,), is_failure=True, is_denied=True)
    waiting = tuple(_waiting(api, filters, wanted.jobs)) if wanted.jobs and not wanted.is_waiting else ()
    lines = (wanted.sentence, *waiting, *unread_managers(api, filters))
    return Absence(lines, is_failure=wanted.jobs is not None)


def _waiting(api: Api, filters: Mapping[str, str | None], jobs: str) -> Iterator[str]:
    """Yield which of the ids have not begun, as far as the server tells."""
    try:
        for item in islice(ask_waiting(api, filters, MOST_NAMED, jobs), MOST_NAMED):
            yield not_begun(shown_id(item), item)
    except KwhereError:
        return


def why_not(api: Api, filters: Mapping[str, str | None]) -> str | None:
    """Return that others' units may not be seen, where somebody else was named."""
    asker = _answer(api, "/whoami")
    if asker is None or asker["everything"]:
        return None
    others = [
        f"{key} {name}"
        for key, seen in (("user", asker["users"]), ("project", asker["projects"]))
        for name in several(filters.get(key))
        if name is not None and name not in seen
    ]
    if not others:
        return None
    rest = f"{asker['name']} sees {asker['sees']}; all others need the role operator or auditor: ask {asker['contact']}"
    return f"not permitted: {', '.join(others)}: {rest}"


def unread_managers(api: Api, filters: Mapping[str, str | None]) -> Iterator[str]:
    """Yield which managers cannot be read: accounting is off, or the server may not ask."""
    found = _answer(api, "/managers") or {"items": []}
    clusters, managers = several(filters.get("cluster")), several(filters.get("manager"))
    for item in found["items"]:
        if clusters != [None] and item["cluster"] not in clusters:
            continue
        if managers != [None] and item["manager"] not in managers:
            continue
        if item["error"]:
            since = f" since {local_time(item['error_since'])}" if item.get("error_since") else ""
            known = f"; known until {local_time(item['good_until'])}" if item.get("good_until") else ""
            yield f"{item['manager']} of {item['cluster']} cannot be read{since}: {item['error']}{known}"
        elif not item.get("good_until"):
            yield f"{item['manager']} of {item['cluster']} has not been read yet"


def _answer(api: Api, path: str) -> Json | None:
    """Return what the server says beside; None where it does not say, which is no error here."""
    try:
        return api.get(path)
    except KwhereError:
        return None
