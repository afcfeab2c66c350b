"""`--[no-]collector.NAME` and `--NAME.SETTING VALUE`: flags whose names only the collectors themselves know."""

from collections.abc import Iterable, Mapping, Sequence

import click
import yaml

Given = tuple[str, str | None]


def split_collector_flags(words: Sequence[str]) -> list[Given]:
    """Return (flag without dashes, value or None) of each; `--a=b` and `--a b` alike. Raises click.UsageError."""
    found: list[Given] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or len(word) < 3:
            raise click.UsageError(f"unexpected argument {word!r}")
        name, has_value, value = word[2:].partition("=")
        if has_value:
            found.append((name, value))
        elif name.startswith(("collector.", "no-collector.")):
            found.append((name, None))
        elif rest and not rest[0].startswith("--"):
            found.append((name, rest.pop(0)))
        else:
            found.append((name, None))
    return found


def collector_overrides(given: Iterable[Given], environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return configuration keys → values; a flag wins over its variable. Raises click.UsageError that names the flag.

    The variables are `KWHERE_COLLECTOR_NAME` (true or false) and `KWHERE_NAME_SETTING`.
    """
    from kwhere.collectors.registry import find_collectors

    plugins = find_collectors().plugins
    found: dict[str, object] = {}
    for name, plugin in plugins.items():
        for variable, key in (
            (f"collector_{name}", "enabled"),
            *((f"{name}_{field}", field) for field in plugin.settings_class.model_fields),
        ):
            if value := environ.get(f"KWHERE_{variable.upper()}"):
                found[f"collector.{name}.{key}"] = _value(f"KWHERE_{variable.upper()}", value)
    for flag, value in given:
        head, _, setting = flag.partition(".")
        if head in ("collector", "no-collector") and setting in plugins:
            found[f"collector.{setting}.enabled"] = head == "collector"
            continue
        field = setting.replace("-", "_")
        if head not in plugins or field not in plugins[head].settings_class.model_fields:
            raise click.UsageError(f"no such option: --{flag}")
        if value is None:
            raise click.UsageError(f"option --{flag} requires an argument")
        found[f"collector.{head}.{field}"] = _value(f"--{flag}", value)
    return found


def _value(source: str, text: str) -> object:
    """Return `text` as YAML reads it. Raises click.UsageError."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise click.UsageError(f"{source}: expected a YAML value, found {text!r}") from None
