"""Settings of the Redfish proxy (`redfish_proxy`)."""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kwhere.agent.listen_settings import ListenSettings, listen_field
from kwhere.devices.redfish_words import RedfishAuth
from kwhere.meters.node_url import check_template
from kwhere.transport.device_settings import DeviceClientSettings

DEFAULT_PORT = 9812
_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_ID = "[A-Za-z0-9._~:@+-]+"
_CHASSIS = f"/redfish/v1/Chassis/{_ID}"
RESOURCES = (
    "/redfish/v1/Chassis",
    _CHASSIS,
    f"{_CHASSIS}/(?:Power|EnvironmentMetrics)",
    f"{_CHASSIS}/Sensors/{_ID}",
)


class ProxyTarget(BaseModel):
    """The BMC of one node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Address of the BMC, e.g. https://10.1.0.7.")
    client: DeviceClientSettings | None = Field(
        default=None, description="User, password file and TLS of this BMC; none: redfish_proxy.client."
    )
    auth: RedfishAuth | None = Field(default=None, description="session or basic; none: redfish_proxy.auth.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if "{" in value or "?" in value or "#" in value:
            raise ValueError("expected an address without placeholders and query: targets are a fixed list")
        return check_template(value)


class RedfishProxySettings(ListenSettings):
    """Whom the proxy answers, and which BMCs it asks for them."""

    listen_addresses: tuple[str, ...] = listen_field(DEFAULT_PORT)
    config_file: Path | None = Field(
        default=None, description="Prometheus web config file: TLS, needed beyond loopback; users, client certificates."
    )
    token_file: Path | None = Field(
        default=None, description="File with the token that agents show, at least 16 characters, mode 0600."
    )
    targets: dict[str, ProxyTarget] = Field(default_factory=dict, description="BMCs by the name of their node.")
    client: DeviceClientSettings = Field(
        default=DeviceClientSettings(), description="User, password file, TLS and time limits of every BMC."
    )
    auth: RedfishAuth = Field(default=RedfishAuth.SESSION, description="How BMCs are told user and password.")
    resources: tuple[str, ...] = Field(
        default=RESOURCES,
        description="Regular expressions; a path that none of them matches as a whole is refused.",
    )
    refresh_seconds: float = Field(
        default=2.0, ge=1, le=600, description="Seconds for which an answer is told again; then the BMC is asked anew."
    )
    max_questions: int = Field(default=64, ge=1, le=256, description="BMCs that are asked at once.")

    @field_validator("targets")
    @classmethod
    def _nodes(cls, value: dict[str, ProxyTarget]) -> dict[str, ProxyTarget]:
        for node in value:
            if not _NODE.fullmatch(node):
                raise ValueError(f"{node[:60]!r}: expected the name of a node")
        return value

    @field_validator("resources")
    @classmethod
    def _expressions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for expression in value:
            try:
                re.compile(expression)
            except re.error as error:
                raise ValueError(f"{expression}: expected a regular expression: {error}") from None
            if not expression.startswith("/redfish/v1/"):
                raise ValueError(f"{expression}: expected one that begins with /redfish/v1/")
        return value
