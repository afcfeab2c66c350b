"""Records of several units, or of several runs of one, added up into one record. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from kwhere.core.terms import Component, Method
from kwhere.database.gpu_records import GpuTotals
from kwhere.database.power_records import PartEnergy
from kwhere.database.records import EmbodiedShare, SiteFigure, UnitEmissions, UnitRecord

_ADDED = (
    *("cpu_user_ns", "cpu_system_ns", "gpu_busy_ns", "throttled_ns", "io_read_bytes", "io_write_bytes"),
    *("network_receive_bytes", "network_transmit_bytes", "power_uw", "emissions_grams"),
)
_ENDED_WELL = frozenset({"completed", "succeeded", "terminated"})


def add_records(records: Sequence[UnitRecord], newest: UnitRecord) -> UnitRecord:
    """Return one record with the figures of all; its names and allocation are those of `newest`.

    A figure that nobody knows of any is None; one that is known of some is the sum over those.
    """
    energy = _energies(record.energy_uj for record in records)
    emissions = _emissions(records)
    return replace(
        newest,
        **{name: _sum(getattr(record, name) for record in records) for name in _ADDED},
        nodes=tuple(dict.fromkeys(node for record in records for node in record.nodes)),
        submitted_at=min((at for record in records if (at := record.submitted_at)), default=None),
        started_at=min(record.started_at for record in records),
        ended_at=_end(records),
        state=state_of(records),
        elapsed_ns=_sum(record.elapsed_ns for record in records),
        cpu_efficiency_ratio=_weighted(
            records, lambda record: record.cpu_efficiency_ratio, lambda record: record.cpu_allocated_seconds
        ),
        memory_peak_bytes=max((peak for r in records if (peak := r.memory_peak_bytes) is not None), default=None),
        energy_uj=energy,
        energy_total_uj=sum(record.energy_total_uj for record in records),
        emissions=emissions,
        method=_method(records),
        methods=tuple({method.component: method for record in records for method in record.methods}.values()),
        quality=frozenset(flag for record in records for flag in record.quality),
        node_runs=tuple(run for record in records for run in record.node_runs),
        figures=_figures(records),
        embodied=_embodied(records),
        gpu=_gpu_totals(records),
        gpus=tuple(gpu for record in records for gpu in record.gpus),
        emissions_until=None,
        is_reported=any(record.is_reported for record in records),
        nodes_unreported=tuple(dict.fromkeys(node for record in records for node in record.nodes_unreported)),
    )


def state_of(records: Sequence[UnitRecord]) -> str:
    """Return the state of all together: running while one runs, else the first that did not end well."""
    live = [record for record in records if record.ended_at is None]
    if live:
        return live[0].state
    return next((record.state for record in records if record.state not in _ENDED_WELL), records[0].state)


def memory_efficiency_of(records: Sequence[UnitRecord]) -> float | None:
    """Return the peaks of memory of that allocated, over the units of which both are known."""
    return _weighted(records, lambda record: record.memory_efficiency_ratio, lambda r: r.memory_allocated_bytes)


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _weighted(
    records: Sequence[UnitRecord],
    ratio: Callable[[UnitRecord], float | None],
    weight: Callable[[UnitRecord], float | None],
) -> float | None:
    known = [
        (value, by) for record in records if (value := ratio(record)) is not None and (by := weight(record)) is not None
    ]
    whole = sum(by for _, by in known)
    return sum(value * by for value, by in known) / whole if whole else None


def _end(records: Sequence[UnitRecord]) -> Any:
    ends = [record.ended_at for record in records]
    return None if None in ends else max(end for end in ends if end is not None)


def _energies(found: Iterable[Mapping[Component, PartEnergy]]) -> Mapping[Component, PartEnergy]:
    added: dict[Component, PartEnergy] = {}
    for energy in found:
        for component, parts in energy.items():
            before = added.get(component)
            added[component] = parts if before is None else _both(before, parts)
    return added


def _both(one: PartEnergy, other: PartEnergy) -> PartEnergy:
    return PartEnergy(_sum((one.dynamic_uj, other.dynamic_uj)), _sum((one.idle_uj, other.idle_uj)))


def _method(records: Sequence[UnitRecord]) -> Method | None:
    """Return how most of the energy came about."""
    known = [record for record in records if record.method is not None]
    return max(known, key=lambda record: record.energy_total_uj).method if known else None


def _emissions(records: Sequence[UnitRecord]) -> tuple[UnitEmissions, ...]:
    added: dict[UnitEmissions, float] = {}
    for record in records:
        for item in record.emissions:
            source = replace(item, grams=0.0)
            added[source] = added.get(source, 0.0) + item.grams
    return tuple(replace(source, grams=grams) for source, grams in added.items())


def _figures(records: Sequence[UnitRecord]) -> tuple[SiteFigure, ...]:
    added: dict[tuple[str, str], SiteFigure] = {}
    for figure in (figure for record in records for figure in record.figures):
        key = (figure.kind, figure.measure)
        before = added.get(key)
        if before is not None:
            amount, is_whole = before.amount + figure.amount, before.is_whole and figure.is_whole
            figure = replace(before, amount=amount, is_whole=is_whole)
        added[key] = figure
    return tuple(added.values())


def _embodied(records: Sequence[UnitRecord]) -> EmbodiedShare | None:
    known = [record.embodied for record in records if record.embodied is not None]
    if not known:
        return None
    grams = reduce(lambda one, other: one.plus(other), (share.grams for share in known))
    return EmbodiedShare(grams, len(known) == len(records) and all(share.is_whole for share in known))


def _gpu_totals(records: Sequence[UnitRecord]) -> GpuTotals:
    added = {each.name: _sum(getattr(r.gpu, each.name) for r in records) for each in fields(GpuTotals)}
    peaks = [record.gpu.memory_peak_bytes for record in records if record.gpu.memory_peak_bytes is not None]
    return GpuTotals(**{**added, "memory_peak_bytes": max(peaks, default=None)})
