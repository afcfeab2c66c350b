"""The Redfish proxy as a long-running role."""

import re

from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_settings import HttpSettings
from kwhere.agent.ledger_token import read_token
from kwhere.agent.redfish_proxy import ProxyFace, RedfishProxy
from kwhere.agent.redfish_proxy_settings import ProxyTarget, RedfishProxySettings
from kwhere.agent.redfish_targets import RedfishTarget, close_targets
from kwhere.agent.web_config import load_web_config
from kwhere.agent.workers import Workers
from kwhere.apps.end_signal import EndSignal
from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError
from kwhere.devices.redfish_client import RedfishClient
from kwhere.transport.credentials import check_base_url

_PATIENCE_SECONDS = 10.0


def build_targets(settings: RedfishProxySettings) -> dict[str, RedfishTarget]:
    """Return the BMCs by node; none is asked yet. Raises ConfigError for an address that must not see a password."""
    workers = Workers(settings.max_questions, _PATIENCE_SECONDS)

    def target(node: str, entry: ProxyTarget) -> RedfishTarget:
        client = entry.client or settings.client
        try:
            check_base_url(entry.url, bearer=client.username is not None or client.token_file is not None)
        except ConfigError as error:
            raise ConfigError(f"redfish_proxy.targets.{node}: {error}") from error
        return RedfishTarget(
            lambda: RedfishClient(entry.url, client, entry.auth or settings.auth),
            workers,
            refresh_seconds=settings.refresh_seconds,
            budget_seconds=client.total_timeout_seconds,
        )

    return {node: target(node, entry) for node, entry in settings.targets.items()}


def build_face(settings: RedfishProxySettings, targets: dict[str, RedfishTarget]) -> ProxyFace:
    """Return what serves the proxy. Raises ConfigError: no targets, no way for callers to say who they are."""
    if not settings.targets:
        raise ConfigError("redfish_proxy.targets: expected at least one node and its BMC")
    web = load_web_config(settings.config_file)
    token = read_token(settings.token_file) if settings.token_file is not None else None
    if token is None and not web.users and web.client_certificates != "required":
        raise ConfigError(
            "redfish_proxy.token_file: expected a token, or users or required client certificates in"
            " redfish_proxy.config_file: the proxy answers nobody it does not know"
        )
    clock = SystemClock()

    def app(rules: AccessRules) -> RedfishProxy:
        return RedfishProxy(targets, settings.resources, rules, clock)

    return ProxyFace(_http(settings), clock, app, token=token)


def run_redfish_proxy(settings: RedfishProxySettings) -> int:
    """Run until SIGTERM or SIGINT, return the exit code. Raises ConfigError at start."""
    end = EndSignal("redfish-proxy")
    targets = build_targets(settings)
    try:
        face = build_face(settings, targets)
        face.start()
    except ConfigError as error:  # the agent's words for the same keys
        raise ConfigError(re.sub(r"\bweb\.", "redfish_proxy.", str(error))) from error
    end.wait()
    face.stop()
    close_targets(list(targets.values()))
    return 0


def _http(settings: RedfishProxySettings) -> HttpSettings:
    return HttpSettings(
        listen_addresses=settings.listen_addresses,
        config_file=settings.config_file,
        max_connections=settings.max_connections,
        reload_seconds=settings.reload_seconds,
    )
