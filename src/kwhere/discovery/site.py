"""A site's own rules from the configuration."""

import re
from collections.abc import Sequence

from kwhere.discovery.match import Match, Rule, join, unit_id
from kwhere.discovery.settings import SiteRule


def rule_for(setting: SiteRule) -> Rule:
    """Return the rule: the unit's directory is the one in which group `unit` ends."""
    pattern = re.compile(setting.pattern)

    def match(segments: Sequence[str]) -> Match | None:
        path = join(segments)
        found = None
        for found in pattern.finditer(path):  # noqa: B007 - the last one is the deepest
            pass
        if found is None or not found["unit"]:
            return None
        groups = found.groupdict()
        end = path.find("/", found.end("unit"))
        top = path if end < 0 else path[:end]
        uid = groups.get("uid")
        return Match(
            manager=setting.manager,
            unit=unit_id(found["unit"]),
            path=path,
            top=top,
            anchor=top.rpartition("/")[0] or "/",
            name=groups.get("name"),
            node_name=groups.get("host"),
            user=groups.get("user"),
            uid=int(uid) if uid and uid.isascii() and uid.isdigit() else None,
        )

    return match
