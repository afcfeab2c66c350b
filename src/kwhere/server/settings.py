"""Settings of the server: where it listens, whom it reads, how often."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.server.target import DEFAULT_CEILING_W
from kwhere.transport.settings import HttpClientSettings


class StaticTarget(BaseModel):
    """One agent, named in the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Scheme, host and port of the agent, e.g. `https://n1:9810`.")
    node: str | None = Field(default=None, description="Node that must answer there; its certificate carries the name.")


class DnsDiscovery(BaseModel):
    """Agents found by name service: every address of every name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: tuple[str, ...] = Field(description="Host names to look up.")
    port: int = Field(default=9810, ge=1, le=65535, description="Port of the agents.")
    scheme: str = Field(default="https", pattern="^https?$", description="http or https.")


class TargetGroup(BaseModel):
    """Agents of one cluster that are spoken to alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = Field(min_length=1, max_length=255, description="Cluster of these nodes; never the agent's word.")
    name: str = Field(default="", description="Name of the group in logs; default: the cluster's.")
    targets: tuple[StaticTarget, ...] = Field(default=(), description="Agents named here.")
    file_sd: tuple[str, ...] = Field(
        default=(), description="Files in Prometheus' file_sd format (JSON), as paths or patterns."
    )
    http_sd: tuple[str, ...] = Field(default=(), description="URLs that answer in Prometheus' http_sd format (JSON).")
    dns: DnsDiscovery | None = Field(default=None, description="Agents found by name service.")
    scheme: str = Field(default="https", pattern="^https?$", description="Scheme of discovered host:port targets.")
    http: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Limits, CA, client certificate and token of this group's agents."
    )
    credential_hosts: tuple[str, ...] = Field(
        default=(),
        description="Hosts (names, `*.suffix` or address ranges) that discovery may name and that then get the token and "
        "the client certificate; hosts of `targets` always do.",
    )
    max_component_watts: float = Field(
        default=DEFAULT_CEILING_W, gt=0, description="Largest plausible power of a component of a node, watts."
    )


class ServerSettings(BaseModel):
    """The server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = Field(default="127.0.0.1:9811", description="Address and port of API and pages.")
    targets: tuple[TargetGroup, ...] = Field(default=(), description="Groups of agents to read.")
    pull_seconds: float = Field(default=30.0, gt=0, description="Seconds between pulls of an agent.")
    page_slots: int = Field(default=200, ge=1, le=1000, description="Slots asked for in one page.")
    workers: int = Field(default=4, ge=1, le=64, description="Agents read at a time.")
    discovery_seconds: float = Field(default=60.0, gt=0, description="Seconds between looks at discovered targets.")
    rollup_seconds: float = Field(default=60.0, gt=0, description="Seconds between passes over hours and days.")
    retention_seconds: float = Field(default=3600.0, gt=0, description="Seconds between passes that drop what is old.")
    factor_seconds: float = Field(default=300.0, gt=0, description="Seconds between questions for emission factors.")
    push_tokens_file: Path | None = Field(
        default=None,
        description="File of agents that may push: one `node cluster token` per line; none: nobody may.",
    )
