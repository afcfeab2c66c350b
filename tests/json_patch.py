"""JSON Patch (RFC 6902) applied strictly: what an API server does with an admission webhook's answer."""

import copy
from typing import Any


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return the document after the operations. Raises KeyError, IndexError where a place is not there."""
    found = copy.deepcopy(document)
    for operation in operations:
        *above, last = [_unescaped(step) for step in operation["path"].split("/")[1:]]
        holder = found
        for step in above:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        assert isinstance(holder, dict), f"{operation['path']}: no object above it"
        if operation["op"] == "remove":
            del holder[last]
        else:
            assert operation["op"] == "add", operation
            holder[last] = copy.deepcopy(operation["value"])
    return found


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
