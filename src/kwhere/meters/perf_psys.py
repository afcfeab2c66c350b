"""The whole platform by the perf event `energy-psys`: an alternative total, never an addend."""

from kwhere.core.terms import DomainKind
from kwhere.kernel.perf_power import Opener
from kwhere.meters.meter import MeterContext, Plugin
from kwhere.meters.perf import PerfMeter, build_perf


def build(context: MeterContext, opener: Opener | None = None) -> PerfMeter:
    """Return the psys meter by perf; it has to show the packages' energy first, as `psys` has.

    Raises Unavailable: absent, permission, unsupported, spare.
    """
    return build_perf(context, "perf_psys", frozenset({DomainKind.PLATFORM}), "psys", opener)


plugin = Plugin("perf_psys", build)
