"""Any store that speaks Prometheus' HTTP API, as a SeriesStore.

Short spans are read as the store has them: an instant query of a bare range selector gives raw samples with their own
times. Where that would be too many samples, a range query of the bare selector gives the last sample of each step
(its lookback set to the step), at the step's end; answers are split at the server's limit of points.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.series.functions import last_per_step
from kwhere.series.labels import encode_labels
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import RawSeries, Selector
from kwhere.transport.http import Answer, HttpClient

_REFUSED = (401, 403)
_SERVER_ERRORS = 500
_TOO_MANY_REQUESTS = 429
_RAW_SAMPLES = 9_000
"""Longest span that is read raw, in scrapes: a day at 10 s."""
_EXCERPT = 200
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

_WHOLE_ANSWERS = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos and VictoriaMetrics are told to fail rather than leave something out; others ignore it."""

Samples = dict[float, float]


@dataclass(frozen=True, slots=True)
class _Found:
    labels: Mapping[str, str]
    samples: Samples


class PrometheusSeriesStore:
    """Reads series over HTTP; built without asking the server anything. Raises ConfigError for a bad address."""

    def __init__(self, settings: PrometheusStoreSettings, client: HttpClient | None = None) -> None:
        self._settings = settings
        self._client = client or HttpClient(settings.url, settings.client)
        self._names = {"cluster": settings.cluster_label, "node": settings.node_label}
        self._own_names = {theirs: ours for ours, theirs in self._names.items()}

    @property
    def scrape_seconds(self) -> float:
        """Return the usual distance between two samples of a series, in seconds."""
        return self._settings.scrape_seconds

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        """Return, per series, the last raw sample of each step.

        Raises Unavailable (no answer, overload) and SourceError (a query refused, an answer that is no such thing).
        """
        expression = self.expression(selector)
        is_short = span.seconds <= _RAW_SAMPLES * self._settings.scrape_seconds
        queries = self._raw(expression, span) if is_short else self._stepped(expression, span, step_seconds)
        found: dict[str, _Found] = {}
        for labels, samples in queries:
            own = {self._own_names.get(name, name): value for name, value in labels.items() if name != "__name__"}
            text = encode_labels(own.items())
            found.setdefault(text, _Found(own, {})).samples.update(samples)
        return [series for text in sorted(found) if (series := _series(found[text], step_seconds)) is not None]

    def expression(self, selector: Selector) -> str:
        """Return the selector in PromQL, with the site's names of the labels."""
        matchers = (
            f'{self._names.get(name, name)}="{value.translate(_ESCAPES)}"' for name, value in selector.labels.items()
        )
        return f"{selector.name}{{{','.join(matchers)}}}"

    # -- the two ways to ask

    def _raw(self, expression: str, span: Span) -> Iterator[tuple[Mapping[str, str], Samples]]:
        start, end = span.start.timestamp(), span.end.timestamp()
        # One millisecond more than the span: whether a range includes its start depends on the server's version.
        reach_ms = math.ceil((math.ceil(end) - start) * 1000) + 1
        query = f"{expression}[{reach_ms}ms]"
        for labels, samples in self._ask("/api/v1/query", query=query, time=str(math.ceil(end))):
            yield labels, {time: value for time, value in samples.items() if start <= time < end}

    def _stepped(self, expression: str, span: Span, step_seconds: float) -> Iterator[tuple[Mapping[str, str], Samples]]:
        first = math.floor(span.start.timestamp() / step_seconds) + 1
        last = math.floor(span.end.timestamp() / step_seconds)
        for start in range(first, last + 1, self._settings.max_points):
            end = min(last, start + self._settings.max_points - 1)
            yield from self._ask(
                "/api/v1/query_range",
                query=expression,
                start=_number(start * step_seconds),
                end=_number(end * step_seconds),
                step=_number(step_seconds),
                # Both are ignored where they are not known. Without them a gap of less than 5 min is bridged.
                lookback_delta=f"{max(1, round(step_seconds * 1000))}ms",
                max_lookback=f"{max(1, round(step_seconds * 1000))}ms",
            )

    def _ask(self, path: str, **form: str) -> Iterator[tuple[Mapping[str, str], Samples]]:
        answer = self._client.post(path, form={**form, **_WHOLE_ANSWERS})
        place = f"{self._settings.url}{path}"
        result = _result(place, _document(place, answer))
        try:
            for series in result:
                yield dict(series["metric"]), {float(time): float(value) for time, value in series.get("values", ())}
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{place}: expected series of samples, found {str(result)[:_EXCERPT]}") from error

    def close(self) -> None:
        """Give back the connection."""
        self._client.close()


def _number(value: float) -> str:
    """Return a number of seconds, a whole one without a point: not every server takes `60.0` for a time."""
    return str(int(value)) if float(value).is_integer() else repr(value)


def _document(place: str, answer: Answer) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Raises Unavailable or SourceError with what the server said."""
    if answer.status in _REFUSED:
        raise Unavailable("permission", f"{place}: status {answer.status}")
    try:
        document = json.loads(answer.body)
    except ValueError as error:
        if answer.status >= _SERVER_ERRORS or answer.status == _TOO_MANY_REQUESTS:
            raise Unavailable("overload", f"{place}: status {answer.status}") from error
        raise SourceError(
            f"{place}: expected JSON, found status {answer.status} and {answer.text[:_EXCERPT]!r}"
        ) from error
    if not isinstance(document, dict):
        raise SourceError(f"{place}: expected a JSON object, found {answer.text[:_EXCERPT]!r}")
    return document


def _result(place: str, document: Mapping[str, Any]) -> list[Any]:
    """Return the series of an answer. An answer that says it is partial is not taken for the whole."""
    if document.get("status") != "success":
        kind, text = document.get("errorType", "unknown"), str(document.get("error", document))[:_EXCERPT]
        if kind in ("timeout", "canceled", "unavailable", "internal"):
            raise Unavailable("overload", f"{place}: {kind}: {text}")
        raise SourceError(f"{place}: {kind}: {text}")
    if document.get("isPartial") is True or document.get("partial") is True:
        raise Unavailable("partial", f"{place}: the store answered only in part")
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        raise SourceError(f"{place}: expected a matrix, found {str(data)[:_EXCERPT]}")
    result: list[Any] = data["result"]
    return result


def _series(found: _Found, step_seconds: float) -> RawSeries | None:
    """Return one sample per step; None without any."""
    samples = sorted((time, value) for time, value in found.samples.items() if not math.isnan(value))
    kept = list(last_per_step([t for t, _ in samples], [v for _, v in samples], step_seconds))
    if not kept:
        return None
    return RawSeries(found.labels, tuple(t for t, _ in kept), tuple(v for _, v in kept))
