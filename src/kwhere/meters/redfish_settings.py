"""Settings of the Redfish meter (`meters.redfish`)."""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.devices.redfish_words import PowerResource, RedfishAuth
from kwhere.meters.node_url import NodeNameRule, check_template
from kwhere.transport.device_settings import DeviceClientSettings

_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~:@+-]{1,128}")


class RedfishSettings(BaseModel):
    """Where this node's BMC is, how it is asked, and which of its figures is the node's power."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = Field(
        default=None,
        description="Address of the BMC, e.g. https://{node}-bmc.example, or of a redfish-proxy, e.g."
        " https://proxy.example:9812/{node}. {node} is the node's name, {short} the part before its first dot, {name}"
        " what node_name makes of it. None: not read.",
    )
    node_name: NodeNameRule = Field(default=NodeNameRule(), description="How {name} is made from the node's name.")
    client: DeviceClientSettings = Field(
        default=DeviceClientSettings(), description="User, password file, TLS, time limits; token_file for a proxy."
    )
    auth: RedfishAuth = Field(
        default=RedfishAuth.SESSION, description="How user and password are given: session (kept, renewed) or basic."
    )
    refresh_seconds: float = Field(
        default=5.0,
        ge=1,
        le=600,
        description="Seconds from one question to the next; power holds for three of them.",
    )
    chassis: tuple[str, ...] = Field(
        default=(), max_length=64, description="Ids of the chassis whose powers are summed; none: the node's is found."
    )
    resource: PowerResource | None = Field(
        default=None,
        description="Which resource of a chassis is read: power, environment, sensor or energy (a counter); none:"
        " power, else environment.",
    )
    power_control: str | None = Field(
        default=None, min_length=1, description="Name or MemberId of the PowerControl member that is the whole node."
    )
    sensor: str | None = Field(default=None, description="Id of the sensor, for resource sensor.")
    includes_gpus: bool = Field(
        default=True, description="Whether the GPUs of this node are fed from what is measured here."
    )

    @field_validator("url")
    @classmethod
    def _is_template(cls, value: str | None) -> str | None:
        return None if value is None else check_template(value)

    @field_validator("chassis")
    @classmethod
    def _are_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("expected each Id once")
        return tuple(_checked_id(item) for item in value)

    @field_validator("sensor")
    @classmethod
    def _is_id(cls, value: str | None) -> str | None:
        return None if value is None else _checked_id(value)

    @model_validator(mode="after")
    def _sensor_is_named(self) -> "RedfishSettings":
        if (self.resource is PowerResource.SENSOR) != (self.sensor is not None):
            raise ValueError("expected resource: sensor together with sensor, the Id of one")
        return self


def _checked_id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise ValueError("expected the Id of a resource, the last part of its path")
    return value
