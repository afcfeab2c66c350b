"""Settings of OpenStack: Keystone for who, Nova for what."""

from collections.abc import Mapping

from pydantic import Field

from kwhere.resource_managers.keystone_settings import KeystoneLogin
from kwhere.resource_managers.plugin import ManagerSettings


class OpenStackSettings(ManagerSettings, KeystoneLogin):
    """One region of an OpenStack."""

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
