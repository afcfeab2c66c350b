"""Which version runs, with which configuration."""

from collections.abc import Iterator

from kwhere import __version__
from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample

BUILD = MetricSpec("kwhere_build_info", Kind.INFO, "Version that runs.", ("version", "revision"))
CONFIG = MetricSpec("kwhere_config_info", Kind.INFO, "Digest of the configuration in force.", ("sha256",))


class BuildInfoSettings(CollectorSettings):
    """Nothing to set."""


class BuildInfoCollector:
    """Says what does not change while the process runs."""

    def __init__(self, context: CollectorContext, settings: BuildInfoSettings) -> None:
        self._context = context

    def collect(self) -> Iterator[Sample]:
        """Yield version and configuration."""
        yield Sample(BUILD, (__version__, ""), 1)
        if self._context.config_sha256 is not None:
            yield Sample(CONFIG, (self._context.config_sha256,), 1)

    def close(self) -> None:
        """Hold nothing."""


plugin = CollectorPlugin(
    name="build_info",
    summary="Version and configuration.",
    settings_class=BuildInfoSettings,
    specs=(BUILD, CONFIG),
    build=BuildInfoCollector,
)
