"""Values of settings that stand elsewhere: `${NAME}` is a variable, `${file:/path}` the text of a file, `$$` a dollar.

What was put in is a secret until shown otherwise: it is kept with the words that named it, and those are shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwhere.core.errors import ConfigError

MAX_FILE_BYTES = 64 * 1024
_REFERENCE = re.compile(r"\$(?:\$|\{([^{}]*)\})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = "file:"
_TELLING = 6
"""A shorter value may stand in a text by chance."""
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Expanded:
    """A value that was put in: where, what was written, what it became."""

    path: Place
    written: str
    value: str

    @property
    def key(self) -> str:
        """Return its dotted key."""
        return ".".join(str(part) for part in self.path)


def expand(tree: Any, environ: Mapping[str, str]) -> tuple[Any, tuple[Expanded, ...]]:
    """Return a tree of settings with every reference replaced, and what was put in. Raises ConfigError."""
    found: list[Expanded] = []

    def walk(value: Any, path: Place) -> Any:
        if isinstance(value, dict):
            return {key: walk(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, (*path, at)) for at, inner in enumerate(value)]
        if not isinstance(value, str) or "$" not in value:
            return value
        text = _replaced(value, path, environ)
        if "${" in value:
            found.append(Expanded(path, value, text))
        return text

    return walk(tree, ()), tuple(found)


def hide(text: str, expanded: Sequence[Expanded]) -> str:
    """Return a sentence with what was put in replaced by the words that named it."""
    for each in sorted(expanded, key=lambda one: -len(one.value)):
        if len(each.value) >= _TELLING or text.startswith(f"{each.key}:"):
            text = text.replace(each.value, each.written) if each.value else text
    return text


def hide_in(tree: Any, expanded: Sequence[Expanded], path: Place = ()) -> Any:
    """Return a tree of settings in force with what was put in replaced by the words that named it."""
    if isinstance(tree, dict):
        return {key: hide_in(inner, expanded, (*path, key)) for key, inner in tree.items()}
    if isinstance(tree, list):
        return [hide_in(inner, expanded, (*path, at)) for at, inner in enumerate(tree)]
    for each in expanded:
        if each.path == path:
            return each.written
    return hide(tree, expanded) if isinstance(tree, str) else tree


def _replaced(text: str, path: Place, environ: Mapping[str, str]) -> str:
    key = ".".join(str(part) for part in path)
    return "".join(_parts(text, key, environ))


def _parts(text: str, key: str, environ: Mapping[str, str]) -> Iterator[str]:
    last = 0
    for match in _REFERENCE.finditer(text):
        yield _plain(text[last : match.start()], key)
        yield "$" if match[1] is None else _value(match[1], key, environ)
        last = match.end()
    yield _plain(text[last:], key)


def _plain(text: str, key: str) -> str:
    """Return text that refers to nothing. Raises ConfigError for a reference that does not end: it was meant as one."""
    if "${" in text:
        raise ConfigError(f"{key}: expected ${{NAME}} with its closing brace (a dollar is $$), found one that is open")
    return text


def _value(name: str, key: str, environ: Mapping[str, str]) -> str:
    if name.startswith(_FILE):
        return _text_of(Path(name.removeprefix(_FILE)), key)
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f"{key}: expected ${{NAME}} or ${{file:/path}} (a dollar is $$), found ${{{name[:40]}}}")
    if name not in environ:
        raise ConfigError(f"{key}: the environment has no variable {name}")
    return environ[name]


def _text_of(file: Path, key: str) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: {file}: expected UTF-8 text") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{key}: {file}: expected at most {MAX_FILE_BYTES} bytes")
    return text.rstrip("\r\n")
