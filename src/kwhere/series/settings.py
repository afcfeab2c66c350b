"""Settings of the stores of series."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.transport.settings import HttpClientSettings


class EmbeddedStoreSettings(BaseModel):
    """The store in the state directory: DuckDB over Parquet."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: Path | None = Field(default=None, description="Where its files are; none: `series` below the state.")
    retention_days: float = Field(default=15.0, gt=0, description="How long samples are kept, in days.")
    flush_seconds: float = Field(
        default=60.0, gt=0, description="How often samples are written, in seconds; a kill loses no more than this."
    )
    scrape_seconds: float = Field(default=10.0, gt=0, description="Usual distance of two samples, in seconds.")
    memory_mebibytes: int = Field(default=256, ge=64, description="Most memory DuckDB may take, in MiB.")
    threads: int = Field(default=2, ge=1, description="Most threads DuckDB may use.")
    head_samples: int = Field(
        default=8_000_000, ge=1000, description="Most samples held in memory, of 16 bytes each, where writing fails."
    )


class PrometheusStoreSettings(BaseModel):
    """A Prometheus-compatible store: Prometheus, Thanos, Mimir, VictoriaMetrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Its address, with the path in front of /api/v1 if there is one.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Limits, trust and credentials of the connection."
    )
    cluster_label: str = Field(default="cluster", pattern="^[a-zA-Z_][a-zA-Z0-9_]*$", description="Label of clusters.")
    node_label: str = Field(default="node", pattern="^[a-zA-Z_][a-zA-Z0-9_]*$", description="Label of nodes.")
    scrape_seconds: float = Field(default=15.0, gt=0, description="Scrape interval of the agents, in seconds.")
    max_points: int = Field(default=11_000, ge=2, description="Most points per series the server gives in one answer.")


class ScrapeSettings(BaseModel):
    """How the server reads the agents' /metrics into the embedded store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_seconds: float = Field(default=10.0, gt=0, description="How often each agent is read, in seconds.")
    timeout_seconds: float = Field(default=5.0, gt=0, description="Longest wait for one agent's page, in seconds.")
    workers: int = Field(default=16, ge=1, description="How many agents are read at a time.")
    max_samples: int = Field(default=200_000, ge=1, description="Most samples taken from one page of an agent.")


class SeriesSettings(BaseModel):
    """Where the looking side keeps its series."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedded: EmbeddedStoreSettings = Field(
        default=EmbeddedStoreSettings(), description="The embedded store; used where no Prometheus is set."
    )
    scrape: ScrapeSettings = Field(default=ScrapeSettings(), description="How the embedded store is fed.")
    prometheus: PrometheusStoreSettings | None = Field(
        default=None, description="A Prometheus-compatible store to read from instead."
    )
