"""WattTime's average rate, beside its marginal one: another provider, because the two are never mixed."""

from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis
from kwhere.emission_factors.watttime import WattTimeSettings, builder

NAME = "watttime_average"

plugin = ProviderPlugin(
    name=NAME,
    summary="Average rate of a region (WattTime v3, AOER): direct. Needs an account.",
    settings_class=WattTimeSettings,
    basis=Basis.AVERAGE,
    build=builder(NAME, "co2_aoer", Basis.AVERAGE),
    is_live=True,
)
