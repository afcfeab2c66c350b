"""Settings of an LDAP client."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, model_validator

from kwhere.transport.credentials import is_loopback


class LdapClientSettings(BaseModel):
    """How a directory server is spoken to: address, trust, who we are, limits."""

    url: str = Field(description="Address: ldaps://ldap.example, or ldap://ldap.example, which then starts TLS.")
    start_tls: bool = Field(
        default=True, description="Whether an ldap:// connection is made TLS; only loopback may do without."
    )
    bind_dn: str | None = Field(default=None, min_length=1, description="Who we are; none: nobody (anonymous).")
    password_file: Path | None = Field(default=None, description="File with the password of `bind_dn`, one line.")
    base_dn: str = Field(min_length=1, description="Where people are looked for, as ou=people,dc=example,dc=org.")
    ca_file: Path | None = Field(default=None, description="PEM file of certificate authorities; none: the system's.")
    server_name: str | None = Field(
        default=None, description="Name the server's certificate must carry; none: the host of its address."
    )
    connect_timeout_seconds: float = Field(default=5.0, gt=0, description="Longest wait for a connection, in seconds.")
    answer_timeout_seconds: int = Field(default=30, ge=1, description="Longest wait for an answer, in seconds.")
    page_size: int = Field(default=500, ge=1, le=10_000, description="Entries asked for at once.")

    @property
    def host(self) -> str:
        """Return the host of the address."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_tls_from_start(self) -> bool:
        """Return whether the connection begins with TLS."""
        return urlsplit(self.url).scheme.lower() == "ldaps"

    @model_validator(mode="after")
    def _nothing_in_the_clear(self) -> "LdapClientSettings":
        parts = urlsplit(self.url)
        if parts.scheme.lower() not in ("ldap", "ldaps") or not parts.hostname:
            raise ValueError("url: expected ldap:// or ldaps:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: user and password belong in bind_dn and password_file")
        if parts.path.strip("/") or parts.query:
            raise ValueError("url: expected an address alone; base and filter have keys of their own")
        if not self.is_tls_from_start and not self.start_tls and not is_loopback(self.host):
            raise ValueError("start_tls: people's data and passwords travel by TLS, or to loopback only")
        if (self.bind_dn is None) != (self.password_file is None):
            raise ValueError("expected both of bind_dn and password_file, or neither")
        return self
