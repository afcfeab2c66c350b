"""Settings of PUE, cost, water and embodied carbon: what is wrong is said at start."""

import pytest
import yaml
from pydantic import ValidationError

from kwhere.database.figure_settings import EmbodiedEntry, node_type_of
from kwhere.database.settings import SiteSettings

WHOLE = """
time_zone: Europe/Paris
pue:
  - {since: 2026-01-01, ratio: 1.2}
  - {since: 2026-02-01T00:00:00+01:00, ratio: 1.3}
cost:
  currency: EUR
  tariffs:
    - since: 2026-01-01
      price_per_kwh: 0.2
      periods:
        - {days: [mon, tue], start: 07:00, end: 22:00, price_per_kwh: 0.3}
water:
  - {since: 2026-01-01, site_litres_per_kwh: 1.8}
embodied:
  - {nodes: "gpu-*", kilograms: 3500, kilograms_min: 2500, kilograms_max: 5000, life_years: 5}
"""


def test_times_of_day_are_read_as_yaml_gives_them() -> None:
    site = SiteSettings.model_validate(yaml.safe_load(WHOLE))

    (period,) = site.cost.tariffs[0].periods
    assert (period.start, period.end) == (7 * 60, 22 * 60)  # YAML makes 1320 of an unquoted 22:00
    assert site.start_ns(site.pue[0].since) == 1_767_222_000_000_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pue: [{since: 2026-02-01, ratio: 1.2}, {since: 2026-01-01, ratio: 1.3}]",
            "pue: expected entries in the order",
        ),
        ("pue: [{since: 2026-01-01, ratio: 0.9}]", "pue.0.ratio"),
        ("pue: [{since: 2026-01-01, ratio: 1.2}]\npue_file: x.csv", "expected pue or pue_file"),
        ("pue: [{since: 2026, ratio: 1.2}]", "expected a date or time such as 2026-01-01"),
        ("{time_zone: Europe/Paris, pue: [{since: 2026-03-29T02:30:00, ratio: 1.2}]}", "is skipped by"),
        ("cost: {currency: euro}", "cost.currency"),
        ("cost: {tariffs: [{since: 2026-01-01, price_per_kwh: .nan}]}", "finite"),
        (
            "cost: {tariffs: [{since: 2026-01-01, price_per_kwh: 1, periods: [{start: '07:03', price_per_kwh: 1}]}]}",
            "multiple of 5 minutes",
        ),
        (
            "cost: {tariffs: [{since: 2026-01-01, price_per_kwh: 1, periods: [{start: '7h', price_per_kwh: 1}]}]}",
            "expected a time of day such as 07:00",
        ),
        ("embodied: [{nodes: '*', kilograms: 10, kilograms_min: 20}]", "kilograms_min <= kilograms"),
        ("water: [{since: 2026-01-01, wue: 1}]", "Extra inputs"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SiteSettings.model_validate(yaml.safe_load(text))


def test_the_first_pattern_that_fits_counts() -> None:
    entries = [EmbodiedEntry(nodes="gpu-*", kilograms=3500), EmbodiedEntry(nodes="*", kilograms=1200, life_years=5)]

    gpu, other = node_type_of(entries, "gpu-1"), node_type_of(entries, "n1")

    assert gpu is not None
    assert other is not None
    assert (gpu.total_grams.value, other.total_grams.value) == (3_500_000.0, 1_200_000.0)
    assert other.life_seconds == 5 * 8760 * 3600
    assert node_type_of(entries[:1], "n1") is None
