"""Why a unit has the energy it has, or none: is it here, does it work, what was it given, who measures it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kwhere.core.errors import KwhereError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, Method, Part
from kwhere.discovery.classify import Classifier
from kwhere.discovery.match import Match
from kwhere.kernel.cgroups import descend, detect_layout
from kwhere.ledger.rows import Entry, Slot
from kwhere.local.doctor import Check, Remedy, failed, missing, ok, warning
from kwhere.local.doctor_place import Place
from kwhere.reports.figures import BYTES, CPU_TIME, quantity, significant, utc_of
from kwhere.sampling.totals import Totals, UnitTotals

_MOST_PATHS = 5
_UJ_PER_J = 1e6


@dataclass(frozen=True, slots=True)
class Evidence:
    """Two steps of a sampler that began with nothing, and where else to look."""

    place: Place
    totals: Totals
    seconds: float
    """Between the two steps."""
    last_booked: Callable[[str | None, str], tuple[Slot, Entry] | None] | None = None
    """The newest slot of the journal with a unit of this manager and id; None for a recorded host."""
    ask_agent: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def explain(ident: str, evidence: Evidence) -> list[Check]:
    """Return what can be said of a unit, named by its id, run or name, with or without `MANAGER/` in front."""
    manager, unit = split_ident(ident, evidence.totals)
    alive = [item for item in evidence.totals.units if is_called(item, manager, unit)]
    if not alive:
        return list(_absent(ident, manager, unit, evidence))
    return [check for item in alive for check in _present(item, evidence)]


def split_ident(ident: str, totals: Totals) -> tuple[str | None, str]:
    """Return manager and id of `slurm/42`; a `/` that no known manager stands before belongs to the id."""
    head, slash, rest = ident.partition("/")
    managers = {item.key.manager for item in totals.units}
    if slash and rest and (head in managers or head.isalpha()):
        return head, rest
    return None, ident


def is_called(item: UnitTotals, manager: str | None, unit: str) -> bool:
    """Return whether this is the unit: by id, run or name."""
    names = (item.key.unit, item.key.run, item.tracked.info.name)
    return manager in (None, item.key.manager) and unit in names


def _present(item: UnitTotals, evidence: Evidence) -> Iterator[Check]:
    tracked = item.tracked
    where = f"cgroup {tracked.cgroup}" if tracked.cgroup else "processes of one user and command"
    state = "alive" if item.live else "ended just now"
    yield ok("unit", f"{item.key.manager}/{item.key.unit}, {state}", f"Followed by its {where}; run {item.key.run}.")
    yield _cpu(item, evidence.seconds)
    yield _allocation(item)
    yield from _components(item, evidence)
    if evidence.ask_agent is not None:
        yield _booked_by_agent(item, evidence.ask_agent)


def _cpu(item: UnitTotals, seconds: float) -> Check:
    name = "unit_cpu_time"
    if item.cpu is None:
        return failed(name, "its CPU time cannot be read", "Without CPU time it gets no dynamic energy.")
    so_far = f"{quantity(item.cpu.total_ns / NANOSECONDS_PER_SECOND, CPU_TIME)} so far"
    dynamic = item.energy_uj.get((Component.CPU, Part.DYNAMIC))
    if dynamic == 0:
        why = f"It used no CPU in {seconds:.0f} s, so it gets no dynamic energy; that is right."
        return ok(name, f"idle, {so_far}", why)
    return ok(name, so_far)


def _allocation(item: UnitTotals) -> Check:
    given = item.tracked.allocation
    if given.milli_cpus is None and given.memory_bytes is None:
        why = "Nothing says what it was given: it gets no share of the idle CPU power, and of memory by what it holds."
        return missing("unit_allocation", "unknown", why)
    cpus = "CPUs unknown" if given.milli_cpus is None else f"{given.milli_cpus / 1000:g} CPUs"
    memory = "memory unknown" if given.memory_bytes is None else quantity(given.memory_bytes, BYTES)
    return ok("unit_allocation", f"{cpus}, {memory}")


def _components(item: UnitTotals, evidence: Evidence) -> Iterator[Check]:
    for component in (Component.CPU, Component.DRAM, Component.OTHER):
        name = f"energy_{component}"
        if component not in evidence.totals.node_uj:
            yield missing(name, "nobody's", f"Nothing measures {component} on this node; see the checks of energy.")
            continue
        dynamic = item.energy_uj.get((component, Part.DYNAMIC), 0)
        idle = item.energy_uj.get((component, Part.IDLE), 0)
        method, source = evidence.totals.methods.get(component, (None, ""))
        found = f"{_watts(dynamic, evidence.seconds)} dynamic, {_watts(idle, evidence.seconds)} idle"
        told = "estimated" if method is Method.MODELLED else f"{method} by {source}"
        yield ok(name, f"{found} ({told})" if method else found)


def _watts(energy_uj: int, seconds: float) -> str:
    return f"{significant(energy_uj / _UJ_PER_J / seconds)} W" if seconds > 0 else f"{energy_uj / _UJ_PER_J:g} J"


def _booked_by_agent(item: UnitTotals, ask_agent: Callable[[dict[str, Any]], dict[str, Any]]) -> Check:
    name = "unit_account"
    try:
        runs = ask_agent({"get": "unit", "manager": item.key.manager, "unit": item.key.unit})["runs"]
    except Unavailable:
        return missing(name, "no agent runs", "Nothing is booked while none runs.", Remedy("kwhere up"))
    if not runs:
        why = "It began a moment ago, is not yours, or the agent's settings fold or leave out its manager."
        return warning(name, "unknown to the agent that runs here", why)
    energy_uj = sum(amount for run in runs for parts in run["energy_uj"].values() for amount in parts.values())
    return ok(name, f"{significant(energy_uj / _UJ_PER_J)} J booked by the agent since it runs")


def _absent(ident: str, manager: str | None, unit: str, evidence: Evidence) -> Iterator[Check]:
    booked = _last_booked(manager, unit, evidence)
    if booked is not None:
        yield booked
        return
    directories = list(_directories(unit, evidence.place))
    if directories:
        yield missing("unit", f"{ident} is no unit of its own here")
        yield from directories
    else:
        yield failed("unit", f"{ident}: none alive here, none in the journal", _near(unit, evidence.totals))


def _last_booked(manager: str | None, unit: str, evidence: Evidence) -> Check | None:
    if evidence.last_booked is None:
        return None
    try:
        found = evidence.last_booked(manager, unit)
    except KwhereError:
        return None
    if found is None or found[1].key is None:
        return None
    slot, entry = found
    energy = sum(entry.figures.energy_uj.values()) / _UJ_PER_J
    moment = utc_of(slot.end_ns).isoformat(" ", "seconds")
    why = f"It is gone. Its last slot ended {moment} and holds {significant(energy)} J."
    assert entry.key is not None
    return ok("unit", f"{entry.key.manager}/{entry.key.unit}, ended", why)


def _near(unit: str, totals: Totals) -> str:
    """Return the units that are called nearly so, as a sentence."""
    word = unit.lower()
    near = [f"{item.key.manager}/{item.key.unit}" for item in totals.units if _resembles(item, word)]
    if not near:
        return "It may run on another node, may have ended before the agent began, or nobody may own it."
    return f"Alive and alike: {', '.join(near[:_MOST_PATHS])}."


def _resembles(item: UnitTotals, word: str) -> bool:
    return word in item.key.unit.lower() or word in (item.tracked.info.name or "").lower()


def _directories(unit: str, place: Place) -> Iterator[Check]:
    """Yield who owns the cgroups whose name holds the id: a fold or a daemon's cgroup is the usual reason."""
    classifier = Classifier(place.settings)
    for path in _paths_with(unit, place):
        yield _owner(path, classifier.path(path))


def _owner(path: str, match: Match | None) -> Check:
    name = "unit_cgroup"
    if match is None:
        why = "No rule knows such a cgroup: its work is `system`. units.site_rules takes a rule of your own."
        return warning(name, path, why)
    if match.is_system:
        return ok(name, path, f"A runtime's or daemon's cgroup ({match.unit}): its work is `system`.")
    why = (
        f"Belongs to {match.manager}/{match.unit}, which is folded into another unit here."
        " Setting units.managers shows its manager's units one by one."
    )
    return ok(name, path, why)


def _paths_with(unit: str, place: Place) -> Sequence[str]:
    try:
        layout = detect_layout(place.fs, place.cgroup_version)
    except Unavailable:
        return ()
    paths = dict.fromkeys(path for tree in layout.cpu for path in descend(place.fs, tree, "/"))
    return [path for path in paths if unit in path.rpartition("/")[2]][:_MOST_PATHS]
