"""Cost and water as they are kept; embodied carbon, worked out on reading."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import schema
from kwhere.database.chunks import chunks
from kwhere.database.figure_settings import node_type_of
from kwhere.database.reading.figures import Row
from kwhere.database.reading.site import Moment
from kwhere.database.records import EmbodiedShare, SiteFigure
from kwhere.database.settings import SiteSettings
from kwhere.database.site_figures import WHOLE
from kwhere.energy.embodied import Range, embodied_grams


def unit_figures(moment: Moment, ids: Sequence[int]) -> Mapping[int, list[SiteFigure]]:
    """Return cost and water of units by id; nothing is asked where neither ever was on."""
    kinds = kinds_of(moment)
    found: dict[int, list[SiteFigure]] = defaultdict(list)
    if not kinds:
        return found
    figures = schema.unit_figures.c
    query = select(figures.unit_id, figures.kind_id, figures.amount, figures.quality).order_by(figures.kind_id)
    for some in chunks(ids):
        for row in moment.connection.execute(query.where(figures.unit_id.in_(some))):
            found[row.unit_id].append(SiteFigure(*kinds[row.kind_id], row.amount, row.quality == WHOLE))
    return found


def kinds_of(moment: Moment) -> dict[int, tuple[str, str]]:
    """Return kind and measure of the figures that are derived, by id."""
    kinds = schema.figure_kinds.c
    return {row.id: (row.kind, row.measure) for row in moment.connection.execute(select(*kinds))}


def embodied_of(site: SiteSettings, runs: Iterable[Row]) -> EmbodiedShare | None:
    """Return the share of runs in the making of their nodes; None where it is off, or nothing of it is known."""
    if not site.embodied:
        return None
    total, is_whole, is_known = Range(0.0, 0.0, 0.0), True, False
    for run in runs:
        node_type = node_type_of(site.embodied, run["node"])
        allocated_ns = run["cpu_allocated_ns"]
        if node_type is None or allocated_ns is None or not run["node_cpus"]:
            is_whole = False
            continue
        is_known = True
        total = total.plus(embodied_grams(node_type, allocated_ns / NANOSECONDS_PER_SECOND, run["node_cpus"]))
    return EmbodiedShare(total, is_whole) if is_known else None
