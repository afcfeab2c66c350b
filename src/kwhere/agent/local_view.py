"""What the local socket tells a caller of the sampler's totals: everything to its owner, their own share to others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kwhere.core.terms import Component
from kwhere.sampling.totals import EnergyRow, Totals, UnitTotals


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks, by the kernel's word."""

    uid: int
    sees_all: bool
    """Root, and whoever the agent itself runs as."""

    def may_see(self, unit: UnitTotals) -> bool:
        """Return whether the unit is the viewer's own, or everything is."""
        return self.sees_all or (unit.tracked.uid is not None and unit.tracked.uid == self.uid)


def top_view(totals: Totals, viewer: Viewer) -> dict[str, object]:
    """Return units and, to who sees all, `system`, `unallocated` and the node. Energy is in microjoules."""
    return {
        "utc_ns": totals.utc_ns,
        "created_utc_ns": totals.created_utc_ns,
        "units": [unit_view(unit) for unit in totals.units if viewer.may_see(unit)],
        "system": _row(totals.system_uj) if viewer.sees_all else None,
        "unallocated": _row(totals.unallocated_uj) if viewer.sees_all else None,
        "node": {str(c): energy_uj for c, energy_uj in totals.node_uj.items()} if viewer.sees_all else None,
        "methods": _methods(totals),
        "sees_all": viewer.sees_all,
    }


def meters_view(totals: Totals) -> dict[str, object]:
    """Return whether each energy source is read and why not, and who speaks for which component: no energy, to all."""
    sources = {name: {"up": source.up, "reason": source.reason} for name, source in totals.sources.items()}
    return {"sources": sources, "methods": _methods(totals)}


def units_of(totals: Totals, viewer: Viewer, manager: str, unit: str) -> list[dict[str, object]]:
    """Return the runs of one unit that the viewer may see, oldest first."""
    found = [item for item in totals.units if (item.key.manager, item.key.unit) == (manager, unit)]
    return [unit_view(item) for item in _by_age(found) if viewer.may_see(item)]


def unit_view(unit: UnitTotals) -> dict[str, object]:
    """Return one unit run: cumulative microjoules and nanoseconds, bytes as of the last full reading, null unknown."""
    key, info, detail = unit.key, unit.tracked.info, unit.detail
    return {
        "manager": key.manager,
        "unit": key.unit,
        "run": key.run,
        "name": info.name,
        "user": info.user,
        "project": info.project,
        "uid": unit.tracked.uid,
        "live": unit.live,
        "energy_uj": _row(unit.energy_uj),
        "power_uw": unit.power_uw,
        "cpu_ns": unit.cpu.total_ns if unit.cpu else None,
        "cpu_user_ns": unit.cpu_user_ns,
        "cpu_system_ns": unit.cpu_system_ns,
        "milli_cpus": unit.tracked.allocation.milli_cpus,
        "memory_bytes": detail.memory_current_bytes if detail else None,
        "memory_peak_bytes": detail.memory_peak_bytes if detail else None,
        "io_read_bytes": detail.io_read_bytes if detail else None,
        "io_write_bytes": detail.io_write_bytes if detail else None,
        "processes": detail.processes if detail else None,
        "threads": detail.threads if detail else None,
        "gpu_busy_ns": _gpu_busy_ns(unit),
    }


def _gpu_busy_ns(unit: UnitTotals) -> int | None:
    """Return GPU time used since the process began: a whole device for a second is one second; None is not known."""
    known = [gpu.busy_ns for gpu in unit.gpus if gpu.busy_ns is not None]
    return sum(known) if known else None


def _methods(totals: Totals) -> dict[str, dict[str, str]]:
    return {
        str(component): {"method": str(method), "source": source}
        for component, (method, source) in totals.methods.items()
    }


def _by_age(units: Iterable[UnitTotals]) -> list[UnitTotals]:
    return sorted(units, key=lambda unit: (unit.tracked.first_seen_ns, unit.key))


def _row(energy_uj: EnergyRow) -> Mapping[str, Mapping[str, int]]:
    """`{"cpu": {"dynamic": …, "idle": …}, …}`; a component that nothing measures is absent."""
    row: dict[str, dict[str, int]] = {}
    for component in Component:
        for (measured, part), amount in energy_uj.items():
            if measured is component:
                row.setdefault(str(component), {})[str(part)] = amount
    return row
