"""The zones that the settings name, checked against what is known of emission factors."""

from kwhere.apps.settings import Settings
from kwhere.core.clock import SystemClock
from kwhere.database.settings import SiteSettings


def zones_by_key(site: SiteSettings) -> dict[str, str]:
    """Return every zone in the settings by its key."""
    zones = {} if site.zone is None else {"site.zone": site.zone}
    return zones | {f"site.cluster_zones.{cluster}": zone for cluster, zone in site.cluster_zones.items()}


def check_factors(settings: Settings) -> None:
    """Do nothing where a server would start with these providers and zones; none is asked. Raises ConfigError."""
    from kwhere.emission_factors.choose import build_chooser

    build_chooser(settings.emission_factors, SystemClock(), zones=zones_by_key(settings.site))
