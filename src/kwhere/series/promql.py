"""Names and values as PromQL wants them: bare where every version reads them so, else quoted.

Names outside the classic set (dots, dashes, letters of any language) are read by Prometheus 3 and what follows it. A
metric is then named by `{__name__="…"}`, which older servers and VictoriaMetrics read too.
"""

import re
from collections.abc import Mapping, Sequence

from kwhere.core.errors import ConfigError

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_ESCAPED = re.compile(r'\\(["\'\\n])')
_UNESCAPED = {"n": "\n"}
_QUOTES = ('"', "'", "`")


def quoted(text: str) -> str:
    """Return `text` as a string of PromQL."""
    return f'"{text.translate(_ESCAPES)}"'


def label_text(name: str) -> str:
    """Return a label's name as it stands in matchers, `by` and `on`."""
    return name if _LABEL.fullmatch(name) else quoted(name)


def selector_text(metric: str, labels: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """Return a bare selector with exact matchers; `more` are matchers that are PromQL already."""
    matchers = [*(f"{label_text(name)}={quoted(value)}" for name, value in labels.items()), *more]
    if _METRIC.fullmatch(metric):
        return f"{metric}{{{','.join(matchers)}}}" if matchers else metric
    return f"{{{','.join([f'__name__={quoted(metric)}', *matchers])}}}"


def labels_text(names: Sequence[str]) -> str:
    """Return names as they stand between the brackets of `by` and `on`."""
    return ", ".join(label_text(name) for name in names)


def read_name(text: str, place: str) -> str:
    """Return a name that somebody wrote bare, in quotes of either kind, or in backticks, as PromQL has it.

    Raises ConfigError for none, for an open quote, and for what no store can hold.
    """
    name = text.strip()
    if name[:1] in _QUOTES:
        if len(name) < 2 or name[-1] != name[0]:
            raise ConfigError(f"{place}: expected a name, or one in quotes, found {text!r}")
        raw, inner = name[0] == "`", name[1:-1]
        name = inner if raw else _ESCAPED.sub(lambda found: _UNESCAPED.get(found[1], found[1]), inner)
    if not name or any(ord(character) < 32 for character in name):
        raise ConfigError(f"{place}: expected a name, found {text!r}")
    return name
