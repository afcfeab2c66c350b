"""Samples as text: Prometheus 0.0.4 and OpenMetrics 1.0, grouped by family, with cached label strings."""

import re
from collections.abc import Iterable
from enum import Enum

from kwhere.core.metrics import Kind, MetricSpec, Sample

_SURROGATE = re.compile("[\ud800-\udfff]")
_CACHE_RENDERS = 64
"""A label string unused for this many pages may be forgotten; after twice as many it is."""


class Format(Enum):
    """A text format; the value is its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS_0 = "application/openmetrics-text; version=0.0.1; charset=utf-8"
    OPENMETRICS_1 = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Renderer:
    """Writes pages; keeps the label strings of samples it has seen lately. Not thread-safe."""

    def __init__(self) -> None:
        self._young: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        self._old: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        self._renders = 0

    def render(self, samples: Iterable[Sample], text_format: Format) -> bytes:
        """Return the page of `samples` in `text_format`. The samples of a family need not stand together."""
        write = self._write_text if text_format is Format.TEXT else self._write_openmetrics
        page = write(samples).encode()
        self._age()
        return page

    def _write_text(self, samples: Iterable[Sample]) -> str:
        families: dict[str, list[str]] = {}
        for sample in samples:
            spec = sample.spec
            lines = families.get(spec.name)
            if lines is None:
                lines = families[spec.name] = [_text_head(spec)]
            value = sample.value
            number = repr(value) if value * 0 == 0 else _odd_number(value)
            lines.append(f"{spec.name}{self._labels(spec.labels, sample.labels)} {number}\n")
        return "".join(["".join(lines) for lines in families.values()])

    def _write_openmetrics(self, samples: Iterable[Sample]) -> str:
        families: dict[str, list[str]] = {}
        for sample in samples:
            spec = sample.spec
            lines = families.get(spec.name)
            if lines is None:
                lines = families[spec.name] = [_openmetrics_head(spec)]
            value = sample.value
            number = repr(value) if value * 0 == 0 else _odd_number(value)
            labels = self._labels(spec.labels, sample.labels)
            lines.append(f"{spec.name}{labels} {number}\n")
            if sample.created_s is not None and spec.kind is Kind.COUNTER:
                lines.append(f"{spec.family}_created{labels} {sample.created_s!r}\n")
        return "".join(["".join(lines) for lines in families.values()]) + "# EOF\n"

    def _labels(self, names: tuple[str, ...], values: tuple[str, ...]) -> str:
        """Return `{name="value",…}`; empty values are left out, and the braces if nothing stays."""
        try:
            return self._young[names][values]
        except KeyError:
            text = self._old.get(names, {}).get(values)
            if text is None:
                text = _label_text(names, values)
            self._young.setdefault(names, {})[values] = text
            return text

    def _age(self) -> None:
        self._renders += 1
        if self._renders % _CACHE_RENDERS == 0:
            self._old, self._young = self._young, {}


def _label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [f'{name}="{escaped_label(value)}"' for name, value in zip(names, values, strict=True) if value]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def escaped_label(value: str) -> str:
    """Return a label value as it may stand between quotes; what is no Unicode text becomes U+FFFD."""
    if not value.isascii():
        value = _SURROGATE.sub("\ufffd", value)
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def _odd_number(value: float) -> str:
    if value != value:
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _text_head(spec: MetricSpec) -> str:
    kind = "gauge" if spec.kind is Kind.INFO else str(spec.kind)
    help_text = spec.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {spec.name} {help_text}\n# TYPE {spec.name} {kind}\n"


def _openmetrics_head(spec: MetricSpec) -> str:
    help_text = spec.help.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f"# HELP {spec.family} {help_text}\n# TYPE {spec.family} {spec.kind}\n"
