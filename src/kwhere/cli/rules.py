"""`kwhere rules`: print recording rules for Prometheus."""

import re
from collections.abc import Sequence

import click

from kwhere.alerts.gpu_exporters import EXPORTERS, GIVEN, QUANTITIES, Named
from kwhere.alerts.promql_parts import RuleOptions
from kwhere.alerts.rule_file import rule_file
from kwhere.core.errors import ConfigError, SourceError
from kwhere.series.promql import read_name
from kwhere.series.retention import parse_duration

_NAMES = tuple(name for name in EXPORTERS if name != GIVEN)
_GIVEN = re.compile(r"\s*(\w+)\s*=(.+?)(?:\*\s*([0-9.eE+-]+)\s*)?", re.DOTALL)
_CLASSIC = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@click.command()
@click.option("--window", default="5m", show_default=True, help="Span of rates: four scrapes of the agents or more")
@click.option("--interval", help="Between two evaluations, such as 30s; without it Prometheus' own")
@click.option("--cluster-label", default="cluster", show_default=True, help="What your scrapes call the cluster")
@click.option("--node-label", default="node", show_default=True, help="What your scrapes call the node")
@click.option("--exporter", "exporters", multiple=True, type=click.Choice(_NAMES), help="Only of these; repeatable")
@click.option(
    "--metric",
    "given",
    multiple=True,
    metavar="QUANTITY=NAME[*FACTOR]",
    help="A metric of an exporter that kwhere does not know, with the labels `uuid` and `node`; in quotes or backticks"
    " where its name needs them. Repeatable",
)
def rules(
    window: str,
    interval: str | None,
    cluster_label: str,
    node_label: str,
    exporters: tuple[str, ...],
    given: tuple[str, ...],
) -> int:
    """Print recording rules, to be named in `rule_files` of prometheus.yml.

    They make one set of series of what kwhere, dcgm-exporter, nvidia-smi's and AMD's exporters call by many names, in
    base units: `gpu:…` of each GPU once, `gpu_instance:…` of MIG instances, `unit:…`, `job:…`, `pod:…` and `node:…`.
    """
    for option, text in (("--window", window), ("--interval", interval)):
        if text is not None:
            check_duration(option, text)
    options = RuleOptions(
        cluster_label=check_label("--cluster-label", cluster_label),
        node_label=check_label("--node-label", node_label),
        window=window,
        interval=interval,
        exporters=exporters or _NAMES,
        given=[given_metric(text) for text in given],
    )
    if options.cluster_label == options.node_label:
        raise ConfigError("--node-label: expected another label than --cluster-label")
    click.echo(rule_file(options), nl=False)
    return 0


def check_duration(option: str, text: str) -> None:
    """Raises ConfigError for what Prometheus takes for no span of time."""
    try:
        is_some = bool(parse_duration(text))
    except SourceError as error:
        raise ConfigError(f"{option}: expected a duration such as 5m, found {text!r}") from error
    if not is_some:
        raise ConfigError(f"{option}: expected more than nothing, found {text!r}")


def check_label(option: str, text: str) -> str:
    """Return a label's name. Raises ConfigError: rules make labels, which only classic names can be everywhere."""
    name = read_name(text, option)
    if not _CLASSIC.fullmatch(name):
        raise ConfigError(f"{option}: expected letters, digits and _, found {text!r}")
    return name


def given_metric(text: str) -> tuple[str, Named]:
    """Return a quantity and what it is called, of `power_watts=`my.metric`*1000`. Raises ConfigError."""
    names: Sequence[str] = [quantity.name for quantity in QUANTITIES]
    found = _GIVEN.fullmatch(text)
    if found is None:
        raise ConfigError(f"--metric: expected QUANTITY=NAME or QUANTITY=NAME*FACTOR, found {text!r}")
    quantity, name, factor = found.groups()
    if quantity not in names:
        raise ConfigError(f"--metric: expected one of {', '.join(names)}, found {quantity!r}")
    try:
        scale = 1.0 if factor is None else float(factor)
    except ValueError as error:
        raise ConfigError(f"--metric {quantity}: expected a number after *, found {factor!r}") from error
    if not 0 < scale < float("inf"):
        raise ConfigError(f"--metric {quantity}: expected a factor above 0, found {factor!r}")
    return quantity, Named(read_name(name, f"--metric {quantity}"), scale)
