"""Settings of who may come in, as whom, and what they may see."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.access.names import checked_name
from kwhere.access.roles import NOBODY_TO_ASK, Role
from kwhere.transport.settings import HttpClientSettings

HEADER_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key pair; `none` and the HMACs, whose key every verifier could sign with, are not to be had."""
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AccountSettings(_Model):
    """A user or project of a cluster."""

    name: str = Field(description="Name, exactly as its manager has it.", min_length=1)
    cluster: str | None = Field(default=None, description="Its cluster. None: of that name in every cluster.")


class PersonSettings(_Model):
    """What somebody is here beside a user."""

    name: str = Field(description="Name as proxy, token or identity provider give it; matched exactly.")
    roles: tuple[Role, ...] = Field(
        default=(), description="`user`, `project manager`, `auditor`, `operator`; `user` is everybody."
    )
    projects: tuple[AccountSettings, ...] = Field(
        default=(), description="Projects whose units they see, whether they are members or not."
    )
    accounts: tuple[AccountSettings, ...] = Field(
        default=(),
        description="Users that they are. None: the user of their own name, in the clusters of `access.clusters`.",
    )

    @field_validator("name")
    @classmethod
    def _is_name(cls, value: str) -> str:
        return checked_name(value)


class GroupSettings(_Model):
    """What the members of a group of the proxy or identity provider are here."""

    group: str = Field(description="Name of the group, matched exactly.", min_length=1)
    roles: tuple[Role, ...] = Field(description="Roles of its members.", min_length=1)


class ProxySettings(_Model):
    """A proxy in front that has logged its users in and names them in a header."""

    user_header: str = Field(
        default="X-Forwarded-User",
        pattern=HEADER_PATTERN,
        description="Header with the user's name, e.g. `kubeflow-userid`, `X-Auth-Request-Preferred-Username`.",
    )
    groups_header: str | None = Field(
        default=None, pattern=HEADER_PATTERN, description="Header with the user's groups, comma-separated. None: none."
    )
    secret_header: str = Field(
        default="X-Kwhere-Proxy-Secret", pattern=HEADER_PATTERN, description="Header with the secret that proves it."
    )
    secret_file: Path | None = Field(
        default=None, description="File (mode 0600) with that secret, at least 32 characters. None: by certificate."
    )
    client_names: tuple[str, ...] = Field(
        default=(),
        description="Names of which one must stand in the client certificate that proves the proxy; needs "
        "`server.web_config_file` with a `client_ca_file`. None: by the secret.",
    )

    @model_validator(mode="after")
    def _is_provable(self) -> "ProxySettings":
        if self.secret_file is None and not self.client_names:
            raise ValueError("expected secret_file or client_names, found neither: anybody could name anybody")
        names = [self.user_header.lower(), self.secret_header.lower(), (self.groups_header or "").lower()]
        if len(set(names)) != len(names):
            raise ValueError("expected three different headers")
        return self


class OidcSettings(_Model):
    """An identity provider whose tokens (JWT) are taken as `Authorization: Bearer`."""

    issuer: str = Field(description="Its `iss`, exactly, e.g. `https://login.example/realms/hpc`.", min_length=1)
    audience: tuple[str, ...] = Field(description="Values of `aud` of which one must be there.", min_length=1)
    jwks_url: str | None = Field(
        default=None, description="Address of its keys. None: as `ISSUER/.well-known/openid-configuration` says."
    )
    algorithms: tuple[Algorithm, ...] = Field(
        default=("RS256", "ES256"), min_length=1, description=f"Signatures taken, of {', '.join(ALGORITHMS)}."
    )
    user_claim: str = Field(
        default="preferred_username",
        description="Claim with the user's name; `email` counts only beside `email_verified`.",
    )
    groups_claim: str | None = Field(default="groups", description="Claim with a list of groups. None: none.")
    leeway_seconds: float = Field(default=30.0, ge=0, le=300, description="Clock difference allowed, in seconds.")
    refresh_seconds: float = Field(default=3600.0, ge=60, description="Seconds after which keys are read again.")
    keep_hours: float = Field(
        default=24.0, gt=0, description="Hours that keys read before still count while the provider does not answer."
    )
    client: HttpClientSettings = Field(default=HttpClientSettings(), description="How it is spoken to.")


class TeamSettings(_Model):
    """What the members of a team of Grafana are here."""

    team: str = Field(description="Name of the team, matched exactly.", min_length=1)
    roles: tuple[Role, ...] = Field(default=(Role.OPERATOR,), description="Roles of its members.", min_length=1)


class GrafanaSettings(_Model):
    """Teams of a Grafana that give roles here."""

    url: str = Field(description="Address of Grafana, e.g. `https://grafana.example`.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(),
        description="How it is spoken to; `token_file` holds a service account's token with `teams:read`.",
    )
    teams: tuple[TeamSettings, ...] = Field(description="Which teams.", min_length=1)
    name_field: Literal["login", "email"] = Field(
        default="login", description="What of a member is their name here: `login` or `email`."
    )
    interval_seconds: float = Field(default=300.0, ge=10, description="Seconds between two reads.")
    keep_hours: float = Field(
        default=24.0, gt=0, description="Hours that the list read last still counts while Grafana does not answer."
    )


class AccessSettings(_Model):
    """How the API and the pages are kept from strangers, and who sees what of them."""

    token_file: Path | None = Field(
        default=None,
        description="File with the access token (mode 0600), asked for by `Authorization: Bearer` and by the cookie of "
        "the pages. Its holder is operator. Required where the server listens off loopback without `proxy` or `oidc`. "
        "No unit.",
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names, besides loopback's and the address listened on, that a request may name in its `Host` "
        "header; others are refused. No unit.",
    )
    secure_cookie: bool = Field(
        default=False,
        description="Mark the cookie `Secure`: set it where a proxy in front serves HTTPS. No unit.",
    )
    cookie_days: int = Field(default=30, ge=1, le=400, description="How long a browser keeps the cookie, in days.")
    contact: str = Field(
        default=NOBODY_TO_ASK,
        description="Whom to ask for more rights, as pages that refuse something say: a name, a mail address, an URL.",
    )
    users_see_nodes: bool = Field(
        default=False,
        description="Whether every user sees nodes, their power and the clusters' capacity. These name nobody, and "
        "tell what all others use together.",
    )
    audit_reads: bool = Field(
        default=True,
        description="Whether the audit log holds who looked at others' units; once per hour for the same thing.",
    )
    clusters: tuple[str, ...] = Field(
        default=(),
        description="Clusters in which the user of somebody's name is that person; elsewhere only `accounts` count. "
        "None: all clusters.",
    )
    people: tuple[PersonSettings, ...] = Field(default=(), description="Who is more than a user.")
    groups: tuple[GroupSettings, ...] = Field(default=(), description="Groups that give roles.")
    proxy: ProxySettings | None = Field(default=None, description="The proxy whose header names the user, if any.")
    oidc: tuple[OidcSettings, ...] = Field(default=(), description="Identity providers, if any.")
    grafana: GrafanaSettings | None = Field(default=None, description="The Grafana whose teams give roles, if any.")

    @model_validator(mode="after")
    def _is_unambiguous(self) -> "AccessSettings":
        for key, names in (
            ("people", [person.name for person in self.people]),
            ("groups", [group.group for group in self.groups]),
            ("oidc", [provider.issuer for provider in self.oidc]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key}: {twice[0]!r} is there twice")
        return self

    @property
    def names_people(self) -> bool:
        """Return whether somebody other than a holder of a token can come in."""
        return self.proxy is not None or bool(self.oidc)
