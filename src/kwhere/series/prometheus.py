"""Any store that speaks Prometheus' HTTP API, as a SeriesStore.

Short spans are read as the store has them: an instant query of a bare range selector gives raw samples with their own
times. Where that would be too many samples, a range query of the bare selector gives the last sample of each step
(its lookback set to the step), at the step's end; answers are split at the server's limit of points. What the server
refuses to load at once is asked for in steps, and then in ever shorter spans.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from kwhere.core.errors import TooMuch
from kwhere.core.timespan import Span
from kwhere.series.functions import last_per_step
from kwhere.series.labels import encode_labels
from kwhere.series.prometheus_age import kept_by
from kwhere.series.prometheus_api import PrometheusApi, Samples
from kwhere.series.promql import label_text, quoted, selector_text
from kwhere.series.replicas import one_of
from kwhere.series.retention import Kept
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import RawSeries, Selector
from kwhere.transport.http import HttpClient

_RAW_SAMPLES = 9_000
"""Longest span that is read raw, in scrapes: a day at 10 s."""
_MISSED_SCRAPES = 2.5
"""Where one of several scrapers missed more, another one's samples stand in."""
_NODES_AT_ONCE = 64
_LEAST_POINTS = 8
"""Fewer points are not halved any more: each of them is too much."""
_OF_EVERY_AGENT = "kwhere_build_info"
_ALWAYS_OURS = frozenset({"__name__"})


@dataclass(frozen=True, slots=True)
class _Found:
    labels: Mapping[str, str]
    replicas: dict[str, Samples] = field(default_factory=dict)
    """By the labels as the store has them."""


class PrometheusSeriesStore:
    """Reads series over HTTP; built without asking the server anything. Raises ConfigError for a bad address."""

    def __init__(self, settings: PrometheusStoreSettings, client: HttpClient | None = None) -> None:
        self._settings = settings
        self._api = PrometheusApi(settings, client)
        self._names = {"cluster": settings.cluster_label, "node": settings.node_label}
        self._own_names = {theirs: ours for ours, theirs in self._names.items() if theirs}
        self._dropped = settings.dropped_labels | _ALWAYS_OURS | (set(self._names) - set(self._own_names))

    @property
    def scrape_seconds(self) -> float:
        """Return the usual distance between two samples of a series, in seconds."""
        return self._settings.scrape_seconds

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        """Return, per series, the last raw sample of each step.

        Raises Unavailable (no answer, overload) and SourceError (a query refused, an answer that is no such thing).
        """
        is_short = span.seconds <= _RAW_SAMPLES * self._settings.scrape_seconds
        found: dict[str, _Found] = {}
        answers = (self._answers(each, span, step_seconds, is_raw=is_short) for each in self._expressions(selector))
        for labels, samples in chain.from_iterable(answers):
            own = self._own(labels, selector)
            one = found.setdefault(encode_labels(own.items()), _Found(own))
            one.replicas.setdefault(encode_labels(labels.items()), {}).update(samples)
        gap = _MISSED_SCRAPES * max(self._settings.scrape_seconds, 0.0 if is_short else step_seconds)
        return [series for text in sorted(found) if (series := _series(found[text], gap, step_seconds)) is not None]

    def expression(self, selector: Selector, *more: str) -> str:
        """Return the selector in PromQL, with the site's names of the labels; `more` are matchers beside its own."""
        labels = {self._names.get(name, name): value for name, value in selector.labels.items()}
        if labels.get(self._settings.node_label):
            labels[self._settings.node_label] += self._settings.node_suffix
        return selector_text(selector.name, {name: value for name, value in labels.items() if name}, more)

    def _expressions(self, selector: Selector) -> Iterator[str]:
        """Yield the selector, and with many nodes one per some dozens of them."""
        if not selector.nodes:
            yield self.expression(selector)
            return
        nodes = sorted(set(selector.nodes))
        for start in range(0, len(nodes), _NODES_AT_ONCE):
            names = [re.escape(f"{node}{self._settings.node_suffix}") for node in nodes[start : start + _NODES_AT_ONCE]]
            matcher = f"{label_text(self._settings.node_label)}=~{quoted('|'.join(names))}"
            yield self.expression(selector, matcher)

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        """Return how far back the store goes; None where it has nothing of the cluster.

        Costs a question, or about five of one point per agent. Raises Unavailable, SourceError.
        """
        return kept_by(self._api, self.expression(Selector(_OF_EVERY_AGENT, {"cluster": cluster})), now)

    def _own(self, labels: Mapping[str, str], selector: Selector) -> dict[str, str]:
        """Return labels by our names, without those that stay here; of a store of one cluster, with its name."""
        own = {self._own_names.get(name, name): value for name, value in labels.items() if name not in self._dropped}
        if "node" in own:
            own["node"] = own["node"].removesuffix(self._settings.node_suffix)
        if not self._settings.cluster_label and "cluster" in selector.labels:
            own["cluster"] = selector.labels["cluster"]
        return own

    # -- the two ways to ask

    def _answers(
        self, expression: str, span: Span, step_seconds: float, *, is_raw: bool
    ) -> list[tuple[Mapping[str, str], Samples]]:
        """Return what is there, raw if wanted and if the server lets it be loaded."""
        if is_raw:
            try:
                return list(self._raw(expression, span))
            except TooMuch:
                pass
        return list(self._stepped(expression, span, step_seconds))

    def _raw(self, expression: str, span: Span) -> Iterator[tuple[Mapping[str, str], Samples]]:
        start, end = span.start.timestamp(), span.end.timestamp()
        # One millisecond more than the span: whether a range includes its start depends on the server's version.
        reach_ms = math.ceil((math.ceil(end) - start) * 1000) + 1
        query = f"{expression}[{reach_ms}ms]"
        for labels, samples in self._api.series("/api/v1/query", query=query, time=str(math.ceil(end))):
            yield labels, {time: value for time, value in samples.items() if start <= time < end}

    def _stepped(self, expression: str, span: Span, step_seconds: float) -> Iterator[tuple[Mapping[str, str], Samples]]:
        first = math.floor(span.start.timestamp() / step_seconds) + 1
        last = math.floor(span.end.timestamp() / step_seconds)
        for start in range(first, last + 1, self._settings.max_points):
            end = min(last, start + self._settings.max_points - 1)
            yield from self._points(expression, start, end, step_seconds)

    def _points(
        self, expression: str, first: int, last: int, step_seconds: float
    ) -> list[tuple[Mapping[str, str], Samples]]:
        """Return the points from step `first` to `last`, halved as often as the server finds them too many."""
        try:
            return list(self._range(expression, first, last, step_seconds))
        except TooMuch:
            if last - first + 1 < _LEAST_POINTS:
                raise
        middle = (first + last) // 2
        halves = ((first, middle), (middle + 1, last))
        return [series for start, end in halves for series in self._points(expression, start, end, step_seconds)]

    def _range(
        self, expression: str, first: int, last: int, step_seconds: float
    ) -> Iterator[tuple[Mapping[str, str], Samples]]:
        lookback = f"{max(1, round(step_seconds * 1000))}ms"
        start, end = first * step_seconds, last * step_seconds
        answers = self._api.series(
            "/api/v1/query_range",
            query=expression,
            start=_number(start),
            end=_number(end),
            step=_number(step_seconds),
            # Both are ignored where they are not known. Without them a gap of less than 5 min is bridged.
            lookback_delta=lookback,
            max_lookback=lookback,
        )
        for labels, samples in answers:
            yield labels, {time: value for time, value in samples.items() if start <= time <= end}

    def close(self) -> None:
        """Give back the connection."""
        self._api.close()


def _number(value: float) -> str:
    """Return a number of seconds, a whole one without a point: not every server takes `60.0` for a time."""
    return str(int(value)) if float(value).is_integer() else repr(value)


def _series(found: _Found, gap_seconds: float, step_seconds: float) -> RawSeries | None:
    """Return one sample per step; None without any."""
    replicas = [
        {time: value for time, value in samples.items() if not math.isnan(value)} for samples in found.replicas.values()
    ]
    samples = sorted(one_of(replicas, gap_seconds).items())
    kept = list(last_per_step([t for t, _ in samples], [v for _, v in samples], step_seconds))
    if not kept:
        return None
    return RawSeries(found.labels, tuple(t for t, _ in kept), tuple(v for _, v in kept))
