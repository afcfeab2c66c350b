"""Where settings come from: defaults, a file, its `conf.d`, the environment, flags; later ones win, none is ignored.

Of lists of entries (managers, targets, inventories) that stand in several files none wins: they are joined.
A file is YAML with one section per package (`agent:`, `server:`, …). An unknown key stops the start and is named,
unless the file's own `since` mapping says that it belongs to a release later than this one:

    since: {agent.new_thing: "0.4"}

`${NAME}` in a value is a variable of the environment, `${file:/path}` the text of a file: see `expansion`.
"""

import difflib
import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kwhere._version import __version__
from kwhere.apps.expansion import Expanded, expand, hide
from kwhere.core.errors import ConfigError

ModelT = TypeVar("ModelT", bound=BaseModel)
Tree = dict[str, Any]

SYSTEM_FILE = Path("/etc/kwhere/kwhere.yaml")
DROP_INS = "conf.d"
MAX_FILE_BYTES = 1 << 20
_BOOLEAN = "tag:yaml.org,2002:bool"
_LOGIN = re.compile(r"//\S*@")
"""User and password in an address, which a complaint about it does not tell on."""


class _Loader(yaml.SafeLoader):
    """YAML whose only booleans are true and false, as in YAML 1.2: the zone `NO` is Norway, the key `off` a key."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own table, with its type
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(_BOOLEAN, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))


def default_file(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration in force when no file is named: the user's, else the system's, else none.

    Where a place has a `conf.d` alone, that directory.
    """
    home = environ.get("XDG_CONFIG_HOME")
    directory = Path(home) if home else home_dir(environ) / ".config"
    for file in (directory / "kwhere" / SYSTEM_FILE.name, SYSTEM_FILE):
        if file.is_file():
            return file
        if (file.parent / DROP_INS).is_dir():
            return file.parent / DROP_INS
    return None


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return where state lives: systemd's STATE_DIRECTORY, else the XDG state directory."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    home = environ.get("XDG_STATE_HOME")
    return (Path(home) if home else home_dir(environ) / ".local" / "state") / "kwhere"


def home_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory: `HOME`, else what the user database says, else `/`."""
    if home := environ.get("HOME"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def load(
    model: type[ModelT],
    file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> ModelT:
    """Return the effective settings of `model`: of `file` and the `conf.d` beside it, or of a directory alone.

    `overrides` maps dotted keys to values. Raises ConfigError.
    """
    tree, expanded = read_all(file)
    for key, value in (overrides or {}).items():
        _put(tree, key.split("."), value)
    return validate(model, tree, expanded)


def read_all(file: Path | None) -> tuple[Tree, tuple[Expanded, ...]]:
    """Return what the files say together, and what was put in from elsewhere. Raises ConfigError."""
    tree: Tree = {}
    later: dict[str, str] = {}
    for path in _files(file) if file else ():
        part = read_file(path)
        later.update(_since(path, part))
        _merge(tree, part)
    _drop_later(tree, later)
    return expand(tree, os.environ)


def validate(model: type[ModelT], tree: Tree, expanded: Sequence[Expanded] = ()) -> ModelT:
    """Return `tree` as `model`. Raises ConfigError that names each wrong key and, if near one, the right one.

    What was put in from elsewhere is not told.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(hide(sentence, expanded) for sentence in _sentences(model, error))) from None


def read_file(path: Path) -> Tree:
    """Return one YAML file as a mapping. Raises ConfigError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: expected at most {MAX_FILE_BYTES} bytes")
    try:
        tree = yaml.load(data, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{path}: expected YAML: {str(error).splitlines()[0]}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigError(f"{path}: expected sections by name, found {type(tree).__name__}")
    return tree


def _files(file: Path) -> Iterator[Path]:
    directory = file
    if not file.is_dir():
        yield file
        directory = file.parent / DROP_INS
    if directory.is_dir():
        yield from sorted(directory.glob("*.yaml"))


def _since(path: Path, tree: Tree) -> dict[str, str]:
    since = tree.pop("since", {})
    if not isinstance(since, dict):
        raise ConfigError(f"{path}: since: expected a mapping of keys to releases")
    return {str(key): str(release) for key, release in since.items()}


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _drop_later(tree: Tree, later: Mapping[str, str]) -> None:
    from structlog import get_logger

    for key, release in later.items():
        if _release(release) > _release(__version__) and _remove(tree, key.split(".")):
            get_logger().warning("setting skipped", key=key, since=release, version=__version__)


def _remove(tree: Tree, path: Sequence[str]) -> bool:
    for name in path[:-1]:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            return False
        tree = inner
    return tree.pop(path[-1], None) is not None


def _put(tree: Tree, path: Sequence[str], value: object) -> None:
    for name in path[:-1]:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(path)}: expected {name} to be a section")
        tree = inner
    tree[path[-1]] = value


def _merge(into: Tree, other: Tree) -> None:
    for key, value in other.items():
        current = into.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value)
        elif _are_entries(current) and _are_entries(value):
            into[key] = [*current, *value]
        else:
            into[key] = value


def _are_entries(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _sentences(model: type[BaseModel], error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_context=False):
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            yield f"{key}: unknown key{_suggestion(model, fault['loc'])}"
        else:
            said = fault["msg"].removeprefix("Value error, ")
            found = _found(fault)
            is_told = ", found " in said or f"{fault.get('input')!r}" in said
            yield f"{key}: {said[0].lower()}{said[1:]}{'' if is_told else found}"


def _found(fault: Mapping[str, Any]) -> str:
    value = fault.get("input")
    if isinstance(value, str):
        value = _LOGIN.sub("//…@", value)
    return f", found {value!r}" if isinstance(value, str | int | float | bool) else ""


def _suggestion(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    for part in loc[:-1]:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ""
        model = inner
    near = difflib.get_close_matches(str(loc[-1]), model.model_fields, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
