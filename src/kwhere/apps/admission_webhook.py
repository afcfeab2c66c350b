"""The admission webhook as a long-running role."""

import re

from kwhere.agent.admission_settings import AdmissionWebhookSettings
from kwhere.agent.admission_webhook import AdmissionWebhook, WebhookFace
from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_settings import HttpSettings
from kwhere.apps.end_signal import EndSignal
from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError
from kwhere.resource_managers.kubernetes_stamping import Stamper
from kwhere.resource_managers.kubernetes_stamps import SealFile


def build_face(settings: AdmissionWebhookSettings) -> WebhookFace:
    """Return what serves the webhook. Raises ConfigError where the key cannot be used."""
    if settings.key_file is None:
        raise ConfigError("admission_webhook.key_file: expected a file with the key that seals names, found none")
    try:
        seals = SealFile(settings.key_file)
    except ConfigError as error:
        raise ConfigError(f"admission_webhook.key_file: {error}") from error
    clock = SystemClock()

    def app(rules: AccessRules) -> AdmissionWebhook:
        return AdmissionWebhook(
            lambda: Stamper(seals.current(), settings.controllers), settings.max_body_bytes, rules, clock
        )

    return WebhookFace(_http(settings), clock, app, token=None)


def run_admission_webhook(settings: AdmissionWebhookSettings) -> int:
    """Run until SIGTERM or SIGINT, return the exit code. Raises ConfigError at start."""
    end = EndSignal("admission-webhook")
    face = build_face(settings)
    try:
        face.start()
    except ConfigError as error:  # the agent's words for the same keys
        raise ConfigError(re.sub(r"\bweb\.", "admission_webhook.", str(error))) from error
    end.wait()
    face.stop()
    return 0


def _http(settings: AdmissionWebhookSettings) -> HttpSettings:
    return HttpSettings(
        listen_addresses=settings.listen_addresses,
        config_file=settings.config_file,
        max_connections=settings.max_connections,
        reload_seconds=settings.reload_seconds,
    )
