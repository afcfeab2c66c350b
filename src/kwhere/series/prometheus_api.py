"""The HTTP API of a Prometheus-compatible store: what is asked, and what is made of answers, bad ones too."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kwhere.core.errors import SourceError, TooMuch, Unavailable
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.transport.credentials import read_headers
from kwhere.transport.http import Answer, HttpClient

_REFUSED = (401, 403)
_FOUND = 200
_SERVER_ERRORS = 500
_NOT_IMPLEMENTED = 501
"""Said of a page or method that the store does not have: no overload, asking again changes nothing."""
_TOO_MANY_REQUESTS = 429
_EXCERPT = 200

_WHOLE_ANSWERS = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos and VictoriaMetrics are told to fail rather than leave something out; others ignore it."""

_TOO_MUCH = re.compile(
    r"too many (?:samples|series|chunks|points|datapoints)|maximum resolution|cannot select more than|err-mimir-max"
    r"|(?:time range|query length)[^.]{0,80}(?:exceed|limit)|exceeds the limit"
    r"|(?:exceed|limit|more than)[^.]{0,80}(?:samples|series|chunks|points|bytes)"
    r"|(?:samples|series|chunks|points|bytes)[^.]{0,80}(?:exceed|limit)",
    re.IGNORECASE,
)
"""How Prometheus, Thanos, Mimir and VictoriaMetrics say that a question would load more than they let it."""

Samples = dict[float, float]


class PrometheusApi:
    """One store over HTTP; built without asking it anything. Raises ConfigError for a bad address or file."""

    def __init__(self, settings: PrometheusStoreSettings, client: HttpClient | None = None) -> None:
        self.url = settings.url
        self._headers = read_headers(settings.headers, settings.header_files, settings.url)
        self._client = client or HttpClient(settings.url, settings.client)

    def series(self, path: str, **form: str) -> Iterator[tuple[Mapping[str, str], Samples]]:
        """Yield labels and samples of a query's matrix.

        Raises Unavailable (no answer, overload), TooMuch, and SourceError (a query refused, an answer that is none).
        """
        answer = self._client.post(path, form={**form, **_WHOLE_ANSWERS}, headers=self._headers)
        place = f"{self.url}{path}"
        result = _result(place, _document(place, answer))
        try:
            for series in result:
                yield _labels(series["metric"]), {float(time): float(value) for time, value in series.get("values", ())}
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise SourceError(f"{place}: expected series of samples, found {str(result)[:_EXCERPT]}") from error

    def told(self, path: str) -> Mapping[str, Any]:
        """Return `data` of a status page; empty where this store has no such page. Raises Unavailable."""
        answer = self._client.get(path, headers=self._headers)
        if _is_overload(answer.status):
            raise Unavailable("overload", f"{self.url}{path}: status {answer.status}")
        if answer.status != _FOUND:
            return {}
        try:
            data = json.loads(answer.body).get("data")
        except (AttributeError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def close(self) -> None:
        """Give back the connection."""
        self._client.close()


def _is_overload(status: int) -> bool:
    return status == _TOO_MANY_REQUESTS or (status >= _SERVER_ERRORS and status != _NOT_IMPLEMENTED)


def _labels(metric: Mapping[str, Any]) -> dict[str, str]:
    labels = dict(metric)
    if not all(isinstance(value, str) for value in labels.values()):
        raise TypeError("expected texts as labels' values")
    return labels


def _document(place: str, answer: Answer) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Raises Unavailable or SourceError with what the server said."""
    if answer.status in _REFUSED:
        raise Unavailable("permission", f"{place}: status {answer.status}")
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        if _is_overload(answer.status):
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
        refusal = TooMuch if _TOO_MUCH.search(text) else SourceError
        raise refusal(f"{place}: {kind}: {text}")
    if document.get("isPartial") is True or document.get("partial") is True:
        raise Unavailable("partial", f"{place}: the store answered only in part")
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        raise SourceError(f"{place}: expected a matrix, found {str(data)[:_EXCERPT]}")
    result: list[Any] = data["result"]
    return result
