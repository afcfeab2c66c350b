"""Which store of series is read for which cluster, and by whom it is fed; built from the settings."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from kwhere.apps.settings import Settings
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.series.by_cluster import ClusterStores
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import SeriesStore
from kwhere.server.target import Target


def open_series(settings: Settings, state_dir: Path, clock: Clock) -> SeriesStore:
    """Return the store of series: of clusters that have one of their own, and of the others. Raises ConfigError."""
    stores: dict[str, SeriesStore] = {
        cluster: _prometheus(f"series.clusters.{cluster}", own) for cluster, own in settings.series.clusters.items()
    }
    common = open_common_series(settings, state_dir, clock)  # last: it locks a directory
    return ClusterStores(stores, common) if stores else common


def open_common_series(settings: Settings, state_dir: Path, clock: Clock) -> SeriesStore:
    """Return the store of clusters without one of their own: a Prometheus where one is named, else the embedded one."""
    if settings.series.prometheus is not None:
        return _prometheus("series.prometheus", settings.series.prometheus)
    from kwhere.series.embedded import EmbeddedSeriesStore  # needs the server part

    embedded = settings.series.embedded
    return EmbeddedSeriesStore(embedded.directory or state_dir / "series", embedded, clock)


def check_series(settings: Settings) -> None:
    """Read what the settings of stores name, and ask none of them. Raises ConfigError."""
    own = {f"series.clusters.{cluster}": store for cluster, store in settings.series.clusters.items()}
    common = {} if settings.series.prometheus is None else {"series.prometheus": settings.series.prometheus}
    for key, store in (common | own).items():
        with closing(_prometheus(key, store)):
            pass


def _prometheus(key: str, settings: PrometheusStoreSettings) -> PrometheusSeriesStore:
    try:
        return PrometheusSeriesStore(settings)
    except ConfigError as error:
        raise ConfigError(f"{key}.{error}") from error


def not_stored_elsewhere(targets: Sequence[Target], settings: Settings) -> list[Target]:
    """Return the targets of clusters without a store of their own: the embedded one is fed from them."""
    return [target for target in targets if target.cluster not in settings.series.clusters]
