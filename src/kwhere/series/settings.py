"""Settings of the stores of series."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kwhere.transport.settings import HttpClientSettings

LabelName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=200)]
"""A label's name in a store: of any letters since Prometheus 3."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NEEDED = frozenset({"manager", "unit", "run", "component", "part", "mode", "source", "domain", "gpu", "uuid", "mig"})
"""Labels without which series of several units, parts or devices would be one."""


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
    headers: dict[str, str] = Field(
        default={}, description="Headers sent with each question, such as `X-Scope-OrgID: cfd`; no secrets."
    )
    header_files: dict[str, Path] = Field(
        default={}, description="Headers whose value is the first line of a file: secrets, over https or to loopback."
    )
    cluster_label: LabelName = Field(
        default="cluster",
        description="Label of clusters. Empty, for an entry of `clusters`: its series have none, they are all of it.",
    )
    node_label: Annotated[LabelName, Field(min_length=1)] = Field(default="node", description="Label of nodes.")
    node_suffix: str = Field(
        default="",
        max_length=300,
        description="What follows the node's name in that label, such as `:9810` or `.cluster.example:9810`.",
    )
    hidden_labels: tuple[str, ...] = Field(
        default=("instance", "job", "prometheus", "prometheus_replica", "replica"),
        description="Labels that are dropped as an answer is read, so that they never leave the server; series that"
        " differ in them alone are one, scraped more than once.",
    )
    scrape_seconds: float = Field(default=15.0, gt=0, description="Scrape interval of the agents, in seconds.")
    max_points: int = Field(default=11_000, ge=2, description="Most points per series the server gives in one answer.")

    @model_validator(mode="after")
    def _check_labels(self) -> "PrometheusStoreSettings":
        if self.cluster_label == self.node_label:
            raise ValueError("cluster_label: expected another label than node_label")
        chosen = set(self.hidden_labels if "hidden_labels" in self.model_fields_set else ())
        needed = sorted((_NEEDED & set(self.hidden_labels)) | (chosen & {self.cluster_label, self.node_label}))
        if needed:
            raise ValueError(f"hidden_labels: {needed[0]!r} tells whose a series is, it cannot be dropped")
        return self

    @model_validator(mode="after")
    def _check_headers(self) -> "PrometheusStoreSettings":
        for name in (*self.headers, *self.header_files):
            if not _HEADER.fullmatch(name):
                raise ValueError(f"headers: expected the name of a header, found {name!r}")
        return self

    @property
    def dropped_labels(self) -> frozenset[str]:
        """Return what is dropped of an answer: a label that names clusters or nodes here is not."""
        return frozenset(self.hidden_labels) - {self.cluster_label, self.node_label}


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
    clusters: dict[str, PrometheusStoreSettings] = Field(
        default={},
        description="Stores of single clusters by the cluster's name; the others are in `prometheus`, or the embedded"
        " one.",
    )

    @model_validator(mode="after")
    def _check_cluster_label(self) -> "SeriesSettings":
        if self.prometheus is not None and not self.prometheus.cluster_label:
            raise ValueError("prometheus.cluster_label: a store without it is an entry of `clusters`, found it empty")
        return self
