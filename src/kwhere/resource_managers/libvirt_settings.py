"""Settings of plain libvirt: which hosts, by which connection, and whose their machines are."""

import re
from collections.abc import Mapping

from pydantic import Field, field_validator

from kwhere.resource_managers.plugin import ManagerSettings

_URI = re.compile(r"[a-z][a-z0-9]*(?:\+[a-z0-9]+)?://[!-~]*")
_GROUPS = {"user", "project"}


class LibvirtSettings(ManagerSettings):
    """Hypervisors without a cloud above them. They are asked for reading alone, by `virsh`."""

    hosts: Mapping[str, str] = Field(
        min_length=1,
        description="Connection by node, as `hv1: qemu+ssh://kwhere@hv1/system`, `qemu+tls://hv1/system`,"
        " `qemu:///system` for this machine.",
    )
    name_pattern: str = Field(
        default="",
        description="Regular expression of a machine's whole name with the groups `user`, `project` or both; none:"
        " names say nothing.",
    )
    user_path: str = Field(
        default="",
        description="Where in a domain's `<metadata>` its user stands, as `{http://example.org/site}owner/{*}user`.",
    )
    project_path: str = Field(default="", description="The same for its project.")
    command: tuple[str, ...] = Field(
        default=("virsh",), min_length=1, description="Command of virsh, with what stands before its options."
    )
    command_timeout_seconds: float = Field(
        default=60.0, gt=0, description="Longest time for one host's answer, in seconds."
    )

    @field_validator("hosts")
    @classmethod
    def _addresses(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for node, uri in value.items():
            if _URI.fullmatch(uri) is None:
                raise ValueError(f"{node}: expected a connection of libvirt, as qemu+ssh://host/system, found {uri!r}")
        return value

    @field_validator("name_pattern")
    @classmethod
    def _pattern(cls, value: str) -> str:
        try:
            named = re.compile(value).groupindex if value else {}
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from error
        if value and (not named or not set(named) <= _GROUPS):
            raise ValueError("expected the groups (?P<user>…) and (?P<project>…), one of them at least")
        return value

    @field_validator("user_path", "project_path")
    @classmethod
    def _path(cls, value: str) -> str:
        if value.startswith("/") or "[" in value or ".." in value:
            raise ValueError("expected steps below <metadata>, as {*}owner/{*}user")
        return value
