"""Puts the door together: who may come in, as whom, and what is told of it."""

from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Engine

from kwhere.access.doorman import Doorman, Ways
from kwhere.access.grafana_teams import TeamRoles
from kwhere.access.grants import Grants
from kwhere.access.guard import GuardRules, build_rules
from kwhere.access.oidc import OidcProviders
from kwhere.access.proxy import TrustedProxy
from kwhere.access.read_audit import ReadAudit, Witnesses
from kwhere.access.settings import AccessSettings
from kwhere.core.clock import Clock
from kwhere.database.api_tokens import ApiToken, find_token


@dataclass(frozen=True, slots=True)
class Door:
    """What stands before API and pages."""

    rules: GuardRules
    doorman: Doorman


def build_door(
    listen_host: str, settings: AccessSettings, engine: Engine, clock: Clock, token: str | None, *, is_tls: bool
) -> Door:
    """Return the door of a server on `listen_host`. Raises ConfigError off loopback where nobody is asked anything."""
    rules = build_rules(listen_host, settings, token)
    if is_tls:
        rules = replace(rules, secure_cookie=True)
    return Door(rules, build_doorman(settings, engine, clock, token))


def build_doorman(settings: AccessSettings, engine: Engine, clock: Clock, token: str | None) -> Doorman:
    """Return who lets people in; without a token and without people anybody, on loopback. Raises ConfigError."""
    if token is None and not settings.names_people:
        return Doorman(None)
    proxy = None if settings.proxy is None else TrustedProxy(settings.proxy)
    find = partial(_find_token, engine, clock)
    return Doorman(token, Ways(build_grants(settings, engine, clock), proxy, find, OidcProviders(settings.oidc, clock)))


def build_grants(settings: AccessSettings, engine: Engine, clock: Clock) -> Grants:
    """Return who is what here."""
    grafana = settings.grafana
    return Grants(settings) if grafana is None else Grants(settings, TeamRoles(engine, clock, grafana.keep_hours))


def build_witnesses(settings: AccessSettings, engine: Engine, clock: Clock) -> Witnesses:
    """Return who is told what principals read; nobody where that is switched off."""
    if not settings.audit_reads:
        return lambda principal: None
    # A token that everybody of a single machine holds says nothing of who looked.
    return ReadAudit(engine, clock, tells_of_tokens=settings.names_people).witness_of


def _find_token(engine: Engine, clock: Clock, text: str) -> ApiToken | None:
    return find_token(engine, text, clock.utc_ns())
