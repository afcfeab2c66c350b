"""A node's reconciliation as the API's JSON."""

import math

from kwhere.api.models import MeterView, ReconciliationView, ResidualView
from kwhere.api.views import agreement_view, chart_view, span_view
from kwhere.reports.agreement import agreement_of, role_of
from kwhere.reports.reconciliation import MeterTrack, Reconciliation, mean_watts, power_chart


def reconciliation_view(found: Reconciliation) -> ReconciliationView:
    """Return meters against each other."""
    chart = power_chart(found)
    return ReconciliationView(
        span=span_view(found.span),
        window_seconds=found.window_seconds,
        windows=found.windows,
        left_out_ratio=found.left_out_ratio,
        platform=None if found.platform is None else found.platform.source,
        components={str(track.kind): track.source for track in found.inside},
        unmeasured=[str(component) for component in found.unmeasured],
        agreement=agreement_view(agreement_of(found)),
        residual=_residual(found),
        meters=[_meter(found, track) for track in found.tracks],
        series=None if chart is None else chart_view(chart),
    )


def _residual(found: Reconciliation) -> ResidualView | None:
    residual = found.residual
    if residual is None:
        return None
    return ResidualView(
        platform_joules=residual.platform_joules,
        components_joules=residual.inside_joules,
        joules=residual.joules,
        idle_joules=found.other_idle_joules,
        dynamic_joules=found.other_dynamic_joules,
        windows=residual.windows,
        within_ratio=residual.within_ratio,
        slope_ratio=residual.slope_ratio,
        verdict=str(residual.verdict),
    )


def _meter(found: Reconciliation, track: MeterTrack) -> MeterView:
    each = found.comparison_of(track)
    known = [value for value in track.joules if value is not None]
    return MeterView(
        source=track.source,
        domain=str(track.kind),
        power_watts=mean_watts(track, found.window_seconds),
        energy_joules=math.fsum(known) if known else None,
        role=role_of(found, track),
        covers=sorted(track.covers),
        reference=None if each is None else each.reference,
        difference_ratio=None if each is None or each.shared is None else each.shared.difference_ratio,
        known_ratio=len(known) / max(1, len(track.joules)),
    )
