"""The whole configuration file: every section of every role, so that one file serves all of them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from kwhere.access.settings import AccessSettings
from kwhere.agent.admission_settings import AdmissionWebhookSettings
from kwhere.agent.http_settings import HttpSettings
from kwhere.agent.push_settings import PushSettings
from kwhere.agent.redfish_proxy_settings import RedfishProxySettings
from kwhere.apps.agent_settings import AgentConfig
from kwhere.database.settings import DatabaseSettings, RetentionSettings, SiteSettings
from kwhere.dcgm.settings import DcgmExporterSettings
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.graphics.amd_names_settings import AmdExporterSettings
from kwhere.reports.settings import ReportSettings
from kwhere.series.settings import SeriesSettings
from kwhere.server.settings import ServerSettings
from kwhere.web.settings import WebSettings


class Settings(AgentConfig):
    """Every section there is. A role reads its own; unknown sections and keys stop the start."""

    web: HttpSettings = Field(default=HttpSettings(), description="The agent's HTTP face.")
    push: PushSettings = Field(default=PushSettings(), description="Where the agent sends its ledger, if anywhere.")
    redfish_proxy: RedfishProxySettings = Field(
        default=RedfishProxySettings(), description="The proxy for nodes without a route to their BMC."
    )
    admission_webhook: AdmissionWebhookSettings = Field(
        default=AdmissionWebhookSettings(),
        description="The webhook that stamps objects of Kubernetes with their maker.",
    )
    dcgm_exporter: DcgmExporterSettings = Field(
        default=DcgmExporterSettings(), description="The face of dcgm-exporter: its names, its labels, its port."
    )
    amd_exporter: AmdExporterSettings = Field(
        default=AmdExporterSettings(), description="A face in the names of AMD's device-metrics-exporter."
    )
    server: ServerSettings = Field(default=ServerSettings(), description="The server.")
    database: DatabaseSettings = Field(default=DatabaseSettings(), description="The database.")
    retention: RetentionSettings = Field(default=RetentionSettings(), description="How long what is kept.")
    site: SiteSettings = Field(default=SiteSettings(), description="The site: time zone, grid zone, PUE.")
    emission_factors: EmissionFactorSettings = Field(
        default=EmissionFactorSettings(), description="Where emission factors come from."
    )
    resource_managers: tuple[Mapping[str, Any], ...] = Field(
        default=(),
        description="Schedulers and clouds whose units and accounts are read, one entry per manager and cluster:"
        " `manager`, `cluster` and the manager's own keys.",
    )
    inventories: tuple[Mapping[str, Any], ...] = Field(
        default=(),
        description="Where the site keeps racks, power limits and retired nodes, and names, mail and languages of"
        " people, one entry per source: `source` and its own keys. Of two that differ the first counts.",
    )
    reports: ReportSettings = Field(default=ReportSettings(), description="Reports that the server writes by itself.")
    series: SeriesSettings = Field(default=SeriesSettings(), description="The store of series.")
    access: AccessSettings = Field(default=AccessSettings(), description="Who may see pages and API.")
    pages: WebSettings = Field(default=WebSettings(), description="The pages.")
