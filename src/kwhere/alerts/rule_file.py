"""Recording rules as Prometheus reads them from a file."""

from collections.abc import Iterator, Mapping

import yaml

from kwhere.alerts.gpu_exporters import DCGM, KWHERE
from kwhere.alerts.gpu_rules import Rule, gpu_rules
from kwhere.alerts.promql_parts import RuleOptions
from kwhere.alerts.unit_rules import holder_rules, node_rules, unit_rules

_HEAD = """\
# Recording rules of `kwhere rules`: one set of series for GPUs, units and nodes, whichever exporter shows them.
# Print them anew with each release. The group is evaluated in its order: rules build on one another.
"""


class _Text(str):
    """A text of several lines."""


def _literal(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")


class _Dumper(yaml.SafeDumper):
    """Writes expressions as blocks, and lists within their keys."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        del indentless
        super().increase_indent(flow, indentless=False)


_Dumper.add_representer(_Text, _literal)


def rule_file(options: RuleOptions) -> str:
    """Return the file."""
    group: dict[str, object] = {"name": "kwhere"}
    if options.interval is not None:
        group["interval"] = options.interval
    group["rules"] = [_rule(rule) for rule in all_rules(options)]
    return _HEAD + yaml.dump(
        {"groups": [group]}, Dumper=_Dumper, sort_keys=False, width=1000, default_flow_style=False, allow_unicode=True
    )


def _rule(rule: Rule) -> Mapping[str, object]:
    found: dict[str, object] = {"record": rule.record, "expr": _Text(_lines(rule.expression) + "\n")}
    if rule.labels:
        found["labels"] = dict(rule.labels)
    return found


def all_rules(options: RuleOptions) -> Iterator[Rule]:
    """Yield all rules in an order in which each is made of those before it."""
    yield from gpu_rules(options)
    if KWHERE in options.exporters:
        yield from unit_rules(options)
    if DCGM in options.exporters:
        yield from holder_rules(options)
    yield from node_rules(options)


def _lines(expression: str) -> str:
    """Return a long expression with a line per alternative of the outermost level."""
    found, depth, line = [], 0, ""
    for word in expression.split(" "):
        if word == "or" and depth == 0 and line:
            found.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        depth += _opened(word)
    return "\n".join([*found, line])


def _opened(word: str) -> int:
    """Return by how many brackets a word goes deeper; none of the rules has a bracket in a string."""
    return sum(word.count(each) for each in "({[") - sum(word.count(each) for each in ")}]")
