"""Pieces of PromQL that the recording rules are made of: one set of labels for every exporter, and sets that join."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kwhere.alerts.gpu_exporters import DCGM, EXPORTERS, KWHERE, Exporter, Named
from kwhere.series.promql import label_text, labels_text, quoted, selector_text

BLANK = 2147483632
"""DCGM's smallest word for `not known`; in its own units (MiB, MHz, W, %) no true value is as large."""
MOST_WATTS = 5000
"""A counter that a blank went through has a rate beyond any GPU's."""
INSTANCE, PROFILE = "gpu_instance", "profile"


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What a site calls things, and how often rules are evaluated."""

    cluster_label: str = "cluster"
    node_label: str = "node"
    window: str = "5m"
    """Span of rates: at least four scrapes."""
    interval: str | None = None
    """Between two evaluations; None: Prometheus' own."""
    exporters: Sequence[str] = tuple(EXPORTERS)
    """Those that are read, out of EXPORTERS."""
    given: Sequence[tuple[str, Named]] = ()
    """More metrics: of which quantity, and what they are called; with the labels `uuid` and, if any, `node`."""

    @property
    def place(self) -> tuple[str, str]:
        """Return the labels that say where."""
        return (self.cluster_label, self.node_label)


def by(function: str, labels: Sequence[str], inner: str) -> str:
    """Return an aggregation over everything but `labels`."""
    return f"{function} by ({labels_text(labels)}) ({inner})"


def times(left: str, on: Sequence[str], right: str, taken: Sequence[str] = (), operator: str = "*") -> str:
    """Return `left` times (or over) the one element of `right` with the same labels `on`, which may lend labels.

    Where several of `right` lend different labels one is taken: else the whole rule would fail, for all GPUs.
    """
    one = by("max", [*on, *taken], right)
    if taken:
        one = f"topk by ({labels_text(on)}) (1, {one})"
    return f"({left}) {operator} on ({labels_text(on)}) group_left ({labels_text(taken)}) {one}"


def first_of(parts: Sequence[str], on: Sequence[str] = ()) -> str:
    """Return the elements of the first part, then those of the next that are not there yet, by the labels `on`."""
    joint = f" or on ({labels_text(on)}) " if on else " or "
    return joint.join(parts)


def either(parts: Sequence[str]) -> str:
    """Return all elements of parts that have none in common."""
    return " or ".join(f"({part})" for part in parts)


def renamed(inner: str, new: str, old: str, pattern: str = "(.+)", value: str = "$1") -> str:
    """Return `inner` with the label `new` made of `old`, where that has a value that matches."""
    return f"label_replace({inner}, {quoted(new)}, {quoted(value)}, {quoted(old)}, {quoted(pattern)})"


def marked(inner: str, label: str, value: str) -> str:
    """Return `inner` with a constant label."""
    return f'label_replace({inner}, {quoted(label)}, {quoted(value)}, "", "")'


def named_node(inner: str, exporter: Exporter, node_label: str) -> str:
    """Return `inner` with the node in its label: the site's own, else the exporter's, without a port."""
    if not exporter.nodes:
        return inner
    candidates = ", ".join(quoted(label) for label in (node_label, *exporter.nodes))
    joined = f'label_join({inner}, {quoted(node_label)}, ";", {candidates})'
    return renamed(joined, node_label, node_label, ";*([^;:]+).*")


def own_labels(inner: str, exporter: Exporter, node_label: str, *, with_instance: bool = False) -> str:
    """Return an exporter's series with our labels `node` and `uuid`, and those of the instance if wanted."""
    found = named_node(inner, exporter, node_label)
    if exporter.uuid != "uuid":
        found = renamed(found, "uuid", exporter.uuid)
    if exporter.uuid_prefix:
        found = renamed(found, "uuid", "uuid", "([0-9a-fA-F].*)", f"{exporter.uuid_prefix}$1")
    if with_instance and exporter.instance:
        found = renamed(renamed(found, INSTANCE, exporter.instance), PROFILE, exporter.profile)
    return found


def value_of(names: Sequence[Named], exporter: Exporter, window: str, *matchers: str) -> str:
    """Return what names of one factor show, the first that is there, without DCGM's words for what is not known."""
    return first_of([_one_value(named, exporter, window, matchers) for named in names])


def _one_value(named: Named, exporter: Exporter, window: str, matchers: Sequence[str]) -> str:
    picked = [word for word in (f'{label_text(exporter.uuid)}!=""', named.matchers, *matchers) if word]
    selector = selector_text(named.metric, {}, picked)
    if named.is_energy_counter:
        return f"rate({selector}[{window}]) * {named.factor:g} < {MOST_WATTS}"
    return f"{selector} < {BLANK}" if exporter.name == DCGM else selector


def alike(names: Sequence[Named]) -> list[list[Named]]:
    """Return names in their order, those side by side that are scaled alike together."""
    groups = groupby(names, key=lambda named: (named.factor, named.is_energy_counter))
    return [list(group) for _, group in groups]


def scaled(expression: str, named: Named) -> str:
    """Return the expression in base units."""
    is_done = named.factor == 1 or named.is_energy_counter
    return expression if is_done else f"{expression} * {named.factor:.12g}"


def whole_only(exporter: Exporter) -> str:
    """Return the matcher of series that are of a whole GPU; empty where the exporter knows no instances."""
    if exporter.name == KWHERE:
        return 'mig=""'
    return f'{label_text(exporter.instance)}=""' if exporter.instance else ""
