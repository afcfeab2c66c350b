"""The whole platform by RAPL's psys zone: an alternative total, never an addend."""

from kwhere.core.terms import Component, DomainKind
from kwhere.meters.meter import MeterContext, Plugin
from kwhere.meters.powercap import RaplMeter, open_zones


def build(context: MeterContext) -> RaplMeter:
    """Return the psys meter. Raises Unavailable: absent, permission, unsupported.

    On servers psys may be in another unit, per socket or dead, so it has to show the packages' energy first.
    """
    zones = open_zones(context, DomainKind.PLATFORM)
    covers = frozenset({Component.CPU, Component.DRAM, Component.OTHER})
    return RaplMeter("psys", zones, context, covers, needs_proof=True)


plugin = Plugin("psys", build)
