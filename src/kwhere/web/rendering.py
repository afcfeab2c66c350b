"""From a page's figures to HTML: one Jinja2 environment, one frame around every page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from kwhere.access.principal import Principal
from kwhere.database.records import UnitRecord, UsageBy
from kwhere.reports.figures import duration, utc_of
from kwhere.reports.plain_text import visible_lines
from kwhere.reports.sources import Sources
from kwhere.web import formatting
from kwhere.web.settings import WebSettings
from kwhere.web.static_files import Assets

OF_THE_SITE = "/nodes"
"""A page that is kept from who sees their own units alone."""
NAVIGATION = (
    ("/", "Overview"),
    ("/units", "Units"),
    ("/nodes", "Nodes"),
    ("/clusters", "Clusters"),
    ("/usage", "Usage"),
    ("/emissions", "Emissions"),
    ("/methodology", "Methodology"),
)


@dataclass(frozen=True, slots=True)
class Pages:
    """What every page is rendered with."""

    sources: Sources
    settings: WebSettings
    assets: Assets
    environment: Environment

    @property
    def now(self) -> datetime:
        """Return the present by the injected clock."""
        return utc_of(self.sources.clock.utc_ns())

    @property
    def zone(self) -> ZoneInfo:
        """Return the site's time zone."""
        return ZoneInfo(self.sources.time_zone)

    def seen_by(self, principal: Principal) -> "Pages":
        """Return the same as far as `principal` may see it."""
        return replace(self, sources=self.sources.seen_by(principal))

    def render(self, request: Request, template: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
        """Return a page; `context` is what its template names, besides the frame's own."""
        zone, now, asker = self.zone, self.now, self.sources.principal
        frame = {
            "assets": self.assets,
            "navigation": [entry for entry in NAVIGATION if asker.visibility.site or entry[0] != OF_THE_SITE],
            "asker": asker,
            "path": request.url.path,
            "zone_name": self.sources.time_zone,
            "now": now,
            "version": self.sources.version,
            "refresh_seconds": self.settings.refresh_seconds,
            "time": partial(_time, zone),
            "ago": partial(_ago, now),
        }
        text = self.environment.get_template(template).render({**frame, **context})
        return HTMLResponse(text, status_code=status)


def _time(zone: ZoneInfo, moment: datetime | None, kind: str = "minutes", reason: str = "not known") -> str:
    return formatting.time_tag(moment, zone, kind, reason)


def _ago(now: datetime, moment: datetime | None, reason: str = "never") -> str:
    return formatting.ago_tag(moment, now, reason)


def _shown(value: object) -> object:
    """Names that people made hold any sign, those too that reorder what stands beside them; our own markup is left."""
    return visible_lines(value) if type(value) is str else value


@cache
def build_environment() -> Environment:
    """Return the environment: everything is escaped, no name turns a line around, a misspelt one is an error.

    It knows nothing of a site, so one with its compiled templates serves a whole process.
    """
    environment = Environment(
        loader=PackageLoader("kwhere.web"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    environment.filters |= {
        "percent": formatting.percent,
        "lasted": formatting.length,
        "duration": duration,
        "full": formatting.full,
        "figure": formatting.number_text,
        "sentence": formatting.sentence,
        "short_model": formatting.short_model,
    }
    environment.globals |= {
        "no_data": formatting.no_data,
        "headline": formatting.headline,
        "unit_url": unit_url,
        "unit_path": unit_path,
        "node_url": node_url,
        "user_url": partial(account_url, UsageBy.USER),
        "project_url": partial(account_url, UsageBy.PROJECT),
        "cluster_url": partial(account_url, UsageBy.CLUSTER),
        "url": url,
    }
    return environment


def url(path: str, **params: str | None) -> str:
    """Return a path with its query; parameters without a value are left out."""
    given = {name.rstrip("_"): value for name, value in params.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def unit_url(record: UnitRecord) -> str:
    """Return the address of a unit's page: its run is named, for an id may be used again."""
    return unit_path(record.cluster, record.manager, record.unit, record.run)


def unit_path(cluster: str, manager: str, unit: str, run: str) -> str:
    """Return the address of a unit's page from its names."""
    place = "/".join(quote(part, safe="") for part in (cluster, manager, unit))
    return url(f"/units/{place}", run=run)


def account_url(by: UsageBy, name: str, cluster: str | None = None) -> str:
    """Return the address of the page of a user, a project (of one cluster, or of all) or a cluster."""
    place = quote(name, safe="")
    return f"/clusters/{place}" if by is UsageBy.CLUSTER else url(f"/{by}s/{place}", cluster=cluster)


def node_url(cluster: str, node: str) -> str:
    """Return the address of a node's page."""
    return url(f"/nodes/{quote(node, safe='')}", cluster=cluster)
