"""Series as exporters write them, given to promtool's own engine: what the recording rules make of them."""

import math
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kwhere.alerts.promql_parts import RuleOptions
from kwhere.alerts.rule_file import rule_file
from kwhere.series.parse import ExpositionParser
from kwhere.series.promql import quoted

MINUTES = 30
AT = "20m"
STEPS = 2.0**30
"""Rounding by a power of two is exact."""


@dataclass
class RuleWorld:
    """Input series of half an hour, and what is expected of recorded ones after 20 minutes."""

    place: Path
    options: RuleOptions = field(default_factory=RuleOptions)
    series: list[dict[str, str]] = field(default_factory=list)
    expected: list[dict[str, object]] = field(default_factory=list)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Add a series that stays as it is."""
        self._add(name, labels, f"{value!r}x{MINUTES}")

    def counter(self, name: str, per_second: float, /, **labels: str) -> None:
        """Add a series that grows evenly."""
        self._add(name, labels, f"0+{per_second * 60!r}x{MINUTES}")

    def page(self, text: bytes, **target: str) -> None:
        """Add a whole page of an exporter, scraped with the labels of its target."""
        parser = ExpositionParser(tuple(target.items()))
        for sample in parser.parse(text):
            if math.isfinite(sample.value):
                self.gauge(sample.name, sample.value, **dict(sample.labels))

    def _add(self, name: str, labels: Mapping[str, str], values: str) -> None:
        told = ", ".join(f"{label}={quoted(value)}" for label, value in labels.items())
        self.series.append({"series": f"{name}{{{told}}}", "values": values})

    def expect(self, query: str, *samples: tuple[Mapping[str, str], float]) -> None:
        """Say all that a query has to give, to 2⁻³⁰; the name is left out."""
        rounded = f"round({query}, {1 / STEPS!r})" if samples else query
        found = [{"labels": _labels(labels), "value": round(value * STEPS) / STEPS} for labels, value in samples]
        self.expected.append({"expr": rounded, "eval_time": AT, "exp_samples": found})

    def check(self) -> None:
        """Let promtool evaluate the rules over the series. Raises AssertionError with what it found instead."""
        (self.place / "rules.yml").write_text(rule_file(self.options))
        test = {"interval": "1m", "input_series": self.series, "promql_expr_test": self.expected}
        document = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
        (self.place / "test.yml").write_text(yaml.safe_dump(document))
        done = subprocess.run(
            ["promtool", "test", "rules", str(self.place / "test.yml")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def dcgm(uuid: str, node: str = "n1", instance: tuple[str, str] | None = None, **more: str) -> dict[str, str]:
    """Return the labels of dcgm-exporter; `instance` is a GPU instance's number and profile."""
    labels = {"gpu": "0", "UUID": uuid, "device": "nvidia0", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": node}
    if instance is not None:
        labels |= {"GPU_I_ID": instance[0], "GPU_I_PROFILE": instance[1]}
    return {**labels, "cluster": "c", "instance": "10.0.0.1:9400", "job": "dcgm", **more}


def own(uuid: str, node: str = "n1", mig: str = "", **more: str) -> dict[str, str]:
    """Return the labels of an agent's GPU series."""
    labels = {"cluster": "c", "node": node, "gpu": "0", "uuid": uuid, "instance": "10.0.0.1:9810", **more}
    return {**labels, "mig": mig} if mig else labels


def unit_on(uuid: str, unit: str, node: str = "n1", mig: str = "", run: str = "1") -> dict[str, str]:
    """Return the labels of a unit's hold on a GPU."""
    return {**own(uuid, node, mig), "manager": "slurm", "unit": unit, "run": run}


def at(uuid: str, source: str, node: str = "n1", **more: str) -> dict[str, str]:
    """Return the labels of a recorded GPU."""
    return {"cluster": "c", "node": node, "source": source, "uuid": uuid, **more}
