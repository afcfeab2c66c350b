"""Settings of OpenStack: Keystone for who, Nova for what."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.transport.settings import HttpClientSettings


class OpenStackSettings(ManagerSettings):
    """One region of an OpenStack; by a user's password or by an application credential, both from a file."""

    auth_url: str = Field(description="Address of Keystone, as https://keystone.example:5000/v3.")
    username: str | None = Field(default=None, min_length=1, description="Name of the user, with a password.")
    user_domain: str = Field(default="Default", description="Name of the user's domain.")
    project: str | None = Field(
        default=None, min_length=1, description="Name of the project the token is for; none: for the whole system."
    )
    project_domain: str = Field(default="Default", description="Name of the project's domain.")
    application_credential_id: str | None = Field(
        default=None, min_length=1, description="Id of an application credential, instead of a user."
    )
    secret_file: Path = Field(description="File with the password or the application credential's secret, one line.")
    region: str | None = Field(default=None, description="Region whose compute service is asked; none: the only one.")
    interface: str = Field(
        default="public", pattern="^(public|internal|admin)$", description="Which address of the catalogue is used."
    )
    compute_url: str | None = Field(
        default=None, description="Address of Nova, as https://nova.example:8774/v2.1; none: the catalogue's."
    )
    microversion: str = Field(
        default="2.47",
        pattern=r"^2\.[0-9]{1,3}$",
        description="Version of Nova's interface that is asked for; below 2.47 flavours are looked up one by one.",
    )
    page_size: int = Field(
        default=500, ge=1, le=1000, description="Servers asked for at once; Nova gives 1000 at most."
    )
    gpu_aliases: Mapping[str, str] = Field(
        default_factory=dict,
        description="GPU model by PCI alias of flavours; aliases with `gpu` in their name count in any case.",
    )
    http: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Time limits, size limit and authorities for Keystone and Nova."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> "OpenStackSettings":
        if (self.username is None) == (self.application_credential_id is None):
            raise ValueError("expected one of username and application_credential_id")
        if self.http.token_file is not None:
            raise ValueError("http.token_file: a token of Keystone is made from secret_file")
        return self
