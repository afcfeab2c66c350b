"""Write the generated reference pages: `python -m scripts.reference`. tests/test_docs.py fails where they are stale."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.apps.settings import Settings
from kwhere.cli.main import COMMANDS, root
from kwhere.collectors.registry import find_collectors
from kwhere.core.clock import SystemClock
from kwhere.core.metrics import MetricSpec
from kwhere.inventories.registry import find_inventories
from kwhere.reports.account import Account
from kwhere.reports.sources import Sources
from kwhere.resource_managers.kubernetes_kubeflow import SPECS as KUBEFLOW
from kwhere.resource_managers.registry import find_managers
from kwhere.server.active_users import ACTIVE
from kwhere.server.metrics import SPECS as SERVER
from kwhere.server.weekly_report_pass import NEWEST

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
GENERATED = "<!-- Generated from the code by `make docs`. Do not edit. -->\n\n"


def metrics() -> str:
    """Return the page of every metric, collector by collector."""
    lines = [
        "# Metrics\n",
        "Native metrics of the agent. Counters end in `_total`; a scrape adds `instance` and the like.\n",
    ]
    for name, plugin in sorted(find_collectors().plugins.items()):
        default = "" if plugin.enabled_by_default else " Off by default."
        lines += [
            f"## {name}\n",
            f"{plugin.summary}{default}\n",
            "| metric | kind | labels | meaning |",
            "|---|---|---|---|",
        ]
        lines += [_metric(spec) for spec in plugin.specs]
        lines.append("")
    lines += [
        "## The server's own\n",
        "At the server's `/metrics`; those of Kubeflow where a cluster has it (docs/kubernetes.md).\n",
    ]
    lines += ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [_metric(spec) for spec in (*SERVER, NEWEST, *KUBEFLOW, ACTIVE)]
    return "\n".join([*lines, ""])


def _metric(spec: MetricSpec) -> str:
    labels = ", ".join(f"`{label}`" for label in spec.labels) or "–"
    return f"| `{spec.name}` | {spec.kind} | {labels} | {_cell(spec.help)} |"


def settings() -> str:
    """Return the page of every setting, section by section."""
    lines = [
        "# Settings\n",
        "One YAML file serves every role; a section per part. Order of strength: flag, environment, `conf.d/*.yaml`,",
        "file, default. Unknown keys stop the start and are named. `kwhere config show` prints the effective file.\n",
        "A value may stand elsewhere: `${NAME}` is a variable of the environment, `${file:/path}` a file's text,",
        "`$$` a dollar. What is put in so is not shown: `config show` and complaints print `${NAME}`.\n",
    ]
    for section, field in Settings.model_fields.items():
        lines += [f"## {section}\n"]
        if field.description:
            lines += [f"{field.description}\n"]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += list(_rows(f"{section}", field))
        if section == "collector":
            lines += list(_collector_rows())
        if section == "resource_managers":
            lines += list(_plugin_rows(section, find_managers().plugins))
        if section == "inventories":
            lines += list(_plugin_rows(section, find_inventories().plugins))
        lines.append("")
    return "\n".join(lines)


def cli() -> str:
    """Return the page of every command with its help text."""
    codes = "Exit codes: 0 done, 1 not found, denied or failed, 2 usage or settings, 130 Ctrl-C.\n"
    lines = ["# Command line\n", codes]
    context = _context(root, "kwhere", None)
    lines += ["```text", root.get_help(context), "```\n"]
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        lines += list(_command(command, name, context))
    return "\n".join(lines)


def api() -> str:
    """Return the page of every route of the API."""
    # The routes alone are asked for their schema: nothing is read.
    document = build_app(Sources(account=cast(Account, None), clock=SystemClock()), GuardRules()).openapi()
    lines = ["# REST API\n", "Errors are `application/problem+json` (RFC 9457). OpenAPI is at `/openapi.json`.\n"]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}\n", f"{route.get('description') or route.get('summary', '')}\n"]
            parameters = route.get("parameters", [])
            if parameters:
                lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
                lines += [_parameter(each) for each in parameters]
                lines.append("")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {"metrics.md": metrics, "settings.md": settings, "cli.md": cli, "api.md": api}


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = _context(command, name, parent)
    yield f"## {context.command_path}\n"
    yield from ("```text", command.get_help(context), "```\n")
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _command(found, inner, context)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """Return the context in which a command runs, 100 columns wide."""
    settings: dict[str, Any] = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
    return click.Context(command, info_name=name, parent=parent, **settings)


def _collector_rows() -> Iterator[str]:
    """Yield the settings of every collector: they are known to their own modules alone."""
    for name, plugin in sorted(find_collectors().plugins.items()):
        for key, inner in plugin.settings_class.model_fields.items():
            yield from _rows(f"collector.{name}.{key}", inner)


def _plugin_rows(section: str, plugins: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of an entry of every plug-in of a section."""
    for name, plugin in sorted(plugins.items()):
        for key, inner in plugin.settings_class.model_fields.items():
            yield from _rows(f"{section}.({name}).{key}", inner)


def _rows(prefix: str, field: FieldInfo) -> Iterator[str]:
    model = field.annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        yield _setting(prefix, field)
        return
    for name, inner in model.model_fields.items():
        nested = _model_in(inner.annotation)
        if nested is not None and nested is inner.annotation:
            yield from _rows(f"{prefix}.{name}", inner)
        else:
            yield _setting(f"{prefix}.{name}", inner)
            if nested is not None:
                for key, each in nested.model_fields.items():
                    yield from _rows(f"{prefix}.{name}[].{key}", each)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = (annotation, *get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _setting(key: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else f"`{_default(field.get_default(call_default_factory=True))}`"
    return f"| `{key}` | {_type(field.annotation)} | {default} | {_cell(field.description or '')} |"


def _default(value: object) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, tuple):
        return "[" + ", ".join(str(each) for each in value) + "]"
    return "none" if value is None else _cell(str(value)) or '""'


def _type(annotation: Any) -> str:
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    text = re.sub(r"(?:[a-z_]+\.)+(?=[A-Za-z])", "", str(annotation))
    return _cell(re.sub(r"<class '(\w+)'>", r"\1", text))


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter.get("schema", {})
    kinds = [each.get("type") for each in schema.get("anyOf", [schema]) if each.get("type") not in (None, "null")]
    meaning = _cell(parameter.get("description", ""))
    return f"| `{parameter['name']}` | {parameter['in']} | {' or '.join(kinds) or 'string'} | {meaning} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> None:
    """Write every page, into the directory of the first argument if there is one."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE
    directory.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (directory / name).write_text(GENERATED + page().rstrip() + "\n")


if __name__ == "__main__":
    main()
