"""Settings of the server: where it listens, whom it reads, how often."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.transport.settings import HttpClientSettings

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class TargetGroup(BaseModel):
    """Agents that are read alike: one cluster, one trust, one set of credentials."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(pattern=CLUSTER_PATTERN, description="Name of the group, in messages and metrics.")
    cluster: str = Field(pattern=CLUSTER_PATTERN, description="Cluster that its nodes belong to.")
    urls: tuple[str, ...] = Field(default=(), description="Agents by address, e.g. `https://n1.example:9810`.")
    files: tuple[Path, ...] = Field(
        default=(), description="Files with targets in Prometheus' file_sd format, JSON or YAML; `*` in the last part."
    )
    http: str | None = Field(default=None, description="Address that answers in Prometheus' http_sd format.")
    http_client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="How that address is spoken to; never with the agents' credentials."
    )
    dns: tuple[str, ...] = Field(
        default=(), description="Host names whose every address is an agent, as `NAME:PORT`; A and AAAA records."
    )
    scheme: str = Field(
        default="https", pattern="^https?$", description="Scheme of targets that discovery gives without one."
    )
    refresh_seconds: float = Field(default=60.0, gt=0, description="Seconds between two looks at files, HTTP and DNS.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="How its agents are spoken to: CA, certificate, token, time-outs."
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names that may get the credentials though discovery named them, `*` for one label,"
        " e.g. `*.cluster.example`; over TLS only.",
    )
    checks_names: bool = Field(
        default=True,
        description="Whether the host name of an `https` address, which its certificate must carry, must be its node's"
        " too; a label `node` of discovery takes its place.",
    )
    ceiling_watts: float = Field(
        default=20_000.0, gt=0, description="Largest plausible power of one component of one node, in watts."
    )


class PushGroup(BaseModel):
    """Agents that no server can reach and that send their ledgers themselves: one cluster, one file of tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(pattern=CLUSTER_PATTERN, description="Name of the group, in messages and metrics.")
    cluster: str = Field(pattern=CLUSTER_PATTERN, description="Cluster that its nodes belong to.")
    tokens_file: Path = Field(
        description="File for its owner alone with a line `NODE TOKEN` per node, or `TOKEN` for any node of the group."
    )
    ceiling_watts: float = Field(
        default=20_000.0, gt=0, description="Largest plausible power of one component of one node, in watts."
    )


class RelaySettings(BaseModel):
    """A cluster whose ledgers this server sends on to another server."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cluster: str = Field(
        pattern=CLUSTER_PATTERN,
        description="Cluster whose nodes are sent; the other server's push group names it anew.",
    )
    url: str = Field(description="Address of the server that takes them in, e.g. `https://kwhere.example`.")
    interval_seconds: float = Field(default=30.0, ge=1, le=3600, description="Seconds between two rounds of sending.")
    page_slots: int = Field(default=100, ge=1, le=1000, description="Most slots sent in one request.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(),
        description="How that server is spoken to: CA, certificate, time-outs; its token must be for any node.",
    )


class ServerSettings(BaseModel):
    """The server: API, pages, intake."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    listen: str = Field(default="127.0.0.1:9811", description="HOST:PORT of API and pages.")
    web_config_file: Path | None = Field(
        default=None,
        description="Prometheus web config file with a `tls_server_config`: HTTPS, and client certificates that prove "
        "`access.proxy`. None: plain HTTP. SIGHUP reads it, and renewed certificates, again.",
    )
    pull_seconds: float = Field(default=30.0, gt=0, description="Seconds between two pulls of one agent.")
    page_slots: int = Field(default=200, ge=1, le=1000, description="Most slots asked for at once.")
    workers: int = Field(
        default=16, ge=1, le=256, description="Agents read at a time; of those that failed last half as many."
    )
    max_clock_offset_seconds: float = Field(
        default=2.0, gt=0, description="Clock offset of a node, in seconds, above which its slots are flagged."
    )
    pass_seconds: float = Field(
        default=1.0, gt=0, description="Seconds between two looks for work of passes: rollups, factors, retention."
    )
    targets: tuple[TargetGroup, ...] = Field(default=(), description="Whom to read.")
    push: tuple[PushGroup, ...] = Field(default=(), description="Who may send its ledger to this server's /ledger.")
    relay: tuple[RelaySettings, ...] = Field(default=(), description="What is sent on to another server.")
