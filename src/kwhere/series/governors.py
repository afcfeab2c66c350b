"""When which frequency governor was in force: what explains a benchmark that fluctuates."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.timespan import Span
from kwhere.series.store import RawSeries, Selector, SeriesStore

METRIC = "kwhere_node_cpu_governor_info"


@dataclass(frozen=True, slots=True, order=True)
class GovernorSpan:
    """One governor of one socket from the first to the last sample that showed it, in UTC seconds."""

    node: str
    socket: str
    start_s: float
    end_s: float
    governor: str


def governor_spans(
    store: SeriesStore, cluster: str, nodes: Sequence[str], span: Span, step_seconds: float
) -> tuple[GovernorSpan, ...]:
    """Return the governors of `nodes`, per node and socket in time order. Raises as the store's select does."""
    if not nodes:
        return ()
    found: dict[tuple[str, str], list[RawSeries]] = {}
    for series in store.select(Selector(METRIC, {"cluster": cluster}, tuple(nodes)), span, step_seconds):
        place = series.labels.get("node", ""), series.labels.get("socket", "")
        found.setdefault(place, []).append(series)
    return tuple(each for place in sorted(found) for each in _of_socket(*place, found[place]))


def _of_socket(node: str, socket: str, found: Sequence[RawSeries]) -> list[GovernorSpan]:
    samples = sorted((time, series.labels.get("governor", "")) for series in found for time in series.times)
    spans: list[GovernorSpan] = []
    for time, governor in samples:
        start = spans.pop().start_s if spans and spans[-1].governor == governor else time
        spans.append(GovernorSpan(node, socket, start, time, governor))
    return spans
