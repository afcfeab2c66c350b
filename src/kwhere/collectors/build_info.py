"""Which version runs, with which configuration."""

import json
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kwhere import __version__
from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample

BUILD = MetricSpec("kwhere_build_info", Kind.INFO, "Version that runs.", ("version", "revision"))
UNKNOWN = "unknown"
CONFIG = MetricSpec("kwhere_config_info", Kind.INFO, "Digest of the configuration in force.", ("sha256",))


class BuildInfoSettings(CollectorSettings):
    """Nothing to set."""


class BuildInfoCollector:
    """Says what does not change while the process runs."""

    def __init__(self, context: CollectorContext, settings: BuildInfoSettings) -> None:
        self._context = context
        self._revision = revision(distribution("kwhere").read_text("direct_url.json"))

    def collect(self) -> Iterator[Sample]:
        """Yield version and configuration."""
        yield Sample(BUILD, (__version__, self._revision), 1)
        if self._context.config_sha256 is not None:
            yield Sample(CONFIG, (self._context.config_sha256,), 1)

    def close(self) -> None:
        """Hold nothing."""


def revision(direct_url: str | None) -> str:
    """Return the commit that runs, from how pip recorded the installation (PEP 610); `unknown` for a release."""
    try:
        source = json.loads(direct_url or "{}")
        if commit := source.get("vcs_info", {}).get("commit_id"):
            return str(commit)
        place = urlsplit(source.get("url", ""))
        if place.scheme == "file" and source.get("dir_info", {}).get("editable"):
            return _checked_out(Path(unquote(place.path)) / ".git") or UNKNOWN
    except (ValueError, AttributeError, OSError):
        pass
    return UNKNOWN


def _checked_out(repository: Path) -> str | None:
    head = (repository / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    if (repository / name).is_file():
        return (repository / name).read_text().strip()
    packed = (repository / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)


plugin = CollectorPlugin(
    name="build_info",
    summary="Version and configuration.",
    settings_class=BuildInfoSettings,
    specs=(BUILD, CONFIG),
    build=BuildInfoCollector,
)
