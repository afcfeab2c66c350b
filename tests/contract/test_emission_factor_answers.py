"""Any answer of any service, through the whole of each provider: factors that keep the rules, or an error of ours."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.emission_services import NOON, SECRET, TOKEN, Asked, HandClock, Said, said, serving

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import EmissionFactorProvider, ForecastProvider
from kwhere.emission_factors.registry import find_providers

NAMES = st.sampled_from(
    """results taux_co2 date_heure data from to intensity forecast actual error message code history carbonIntensity
    datetime updatedAt isEstimated emissionFactorType point_time value meta units signal_type data_point_period_seconds
    generated_at zone start end grams_per_kwh quality""".split()  # noqa: SIM905 - a list of thirty is a page
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**20),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["2026-11-29T11:00:00Z", "2026-11-29T11:30Z", "2026-11-29T13:00:00+02:00", "2026-11-29T11:00:00"]),
    st.sampled_from(["lbs_co2_per_mwh", "co2_moer", "lifecycle", "direct", "measured", "0001-01-01T00:00:00+12:00"]),
)
DOCUMENTS = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=40
)
PROVIDERS = {
    "rte": ("FR", {}),
    "neso": ("GB", {}),
    "electricity_maps": ("FR", {"version": "v4"}),
    "watttime": ("CAISO_NORTH", {"username": "site"}),
    "file": ("FR", {"citation": "c"}),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_any_json_is_factors_or_an_error_of_ours(name: str, tmp_path: Path) -> None:
    clock = HandClock()
    document: list[object] = [None]
    key = tmp_path / "key"
    key.write_text(SECRET)

    def route(asked: Asked) -> Said:
        return said({"token": TOKEN}) if asked.path == "/login" else Said(json.dumps(document[0]).encode())

    with serving(route, clock) as service:
        zone, own = PROVIDERS[name]
        keyed = {"secret_file": key} if name in ("electricity_maps", "watttime") else {}
        plugin = find_providers(()).plugins[name]
        chosen = plugin.settings_class.model_validate({"url": service.url, **keyed, **own})
        provider = plugin.build(chosen, clock)

        @given(DOCUMENTS)
        @settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
        def asked_and_answered(value: object) -> None:
            document[0] = value
            check(provider, zone)

        asked_and_answered()


def check(provider: EmissionFactorProvider, zone: str) -> None:
    span = Span(NOON.replace(hour=9), NOON.replace(hour=15))
    ways = [provider.factors, *([provider.forecast] if isinstance(provider, ForecastProvider) else [])]
    for way in ways:
        try:
            factors = way(zone, span)
        except (NoData, SourceError, Unavailable):
            continue
        assert factors
        assert all(factor.span.overlaps(span) and 0 <= factor.grams_per_kwh <= 5000 for factor in factors)
        assert all(one.span.end <= other.span.start for one, other in pairwise(factors))
