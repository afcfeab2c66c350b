"""GPU handles that the agent here has given back: since when, by whom, and for how long yet."""

import pwd
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kwhere.core.errors import KwhereError
from kwhere.reports.figures import duration


def ask_released(ask_agent: Callable[[dict[str, Any]], dict[str, Any]], now: datetime, *, names: bool = True) -> str:
    """Return in words that the agent has given GPUs back; empty where it has not, or where none runs."""
    try:
        answer = ask_agent({"get": "gpu"})
    except KwhereError:
        return ""
    return released_words(answer if names else {**answer, "uid": None}, now) if answer.get("released") else ""


def released_words(answer: Mapping[str, Any], now: datetime) -> str:
    """Return the words for an answer of the agent whose GPUs are released; `now` is in the reader's time zone."""
    by, uid = answer.get("by") or "request", answer.get("uid")
    who = f"{by} of {_name(uid)}" if isinstance(uid, int) else by
    seconds, left = (answer.get(key) for key in ("seconds", "left_seconds"))
    since = (
        f" since {now - timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}, {duration(seconds)} ago"
        if isinstance(seconds, int | float)
        else ""
    )
    again = f"; taken again by themselves in {duration(left)}" if isinstance(left, int | float) else ""
    return f"released by {who}{since}{again}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
