"""The files that the door's settings name, read without the server part: `kwhere config check` does it too."""

import ssl
from pathlib import Path

from kwhere.access.proxy_secret import read_secret
from kwhere.agent.web_config import load_web_config
from kwhere.apps.settings import Settings
from kwhere.core.errors import ConfigError


def check_door(settings: Settings) -> ssl.SSLContext | None:
    """Read what the settings name, and return the server's TLS. Raises ConfigError."""
    tls, proxy = load_tls(settings.server.web_config_file), settings.access.proxy
    if proxy is None:
        return tls
    if proxy.secret_file is not None:
        read_secret(proxy.secret_file)
    if proxy.client_names and settings.server.web_config_file is None:
        raise ConfigError("access.proxy.client_names: needs server.web_config_file, whose client_ca_file proves them")
    return tls


def load_tls(file: Path | None) -> ssl.SSLContext | None:
    """Return the TLS that a web config file describes. Raises ConfigError: wrong, or more than TLS."""
    if file is None:
        return None
    web = load_web_config(file)
    if web.users or web.headers or web.client_allowed_sans:
        raise ConfigError(
            f"server.web_config_file: {file}: expected a tls_server_config without client_allowed_sans and no more:"
            " people are in `access`, names of a proxy's certificate in `access.proxy.client_names`"
        )
    return web.tls
