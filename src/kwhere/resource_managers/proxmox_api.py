"""The API of Proxmox VE: questions with a token, answers as they are.

Source: Proxmox VE API documentation (pve-docs/api-viewer).
"""

from collections.abc import Mapping

from kwhere.core.errors import SourceError, Unavailable
from kwhere.resource_managers.proxmox_settings import ProxmoxSettings
from kwhere.resource_managers.rest_values import decode, records
from kwhere.transport.credentials import check_base_url
from kwhere.transport.http import HttpClient

Record = Mapping[str, object]


class ProxmoxApi:
    """Asks one node, which answers for its cluster."""

    def __init__(self, settings: ProxmoxSettings) -> None:
        """Raises ConfigError for an address that would carry the token in the clear."""
        check_base_url(settings.url, bearer=True)
        self._settings = settings
        base = settings.url.rstrip("/").removesuffix("/api2/json")
        self._client = HttpClient(f"{base}/api2/json", settings.http)

    def rows(self, path: str, params: Mapping[str, str] | None = None) -> list[Record]:
        """Return the objects of a list. Raises Unavailable and SourceError."""
        return records(self._ask(path, params or {}), "data", path)

    def record(self, path: str) -> Record:
        """Return one object. Raises Unavailable and SourceError."""
        data = self._ask(path, {}).get("data")
        if not isinstance(data, Mapping):
            raise SourceError(f"{path}: expected an object, found {type(data).__name__}")
        return data

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()

    def _ask(self, path: str, params: Mapping[str, str]) -> Record:
        headers = {"Authorization": f"PVEAPIToken={self._token()}", "Accept": "application/json"}
        answer = self._client.get(path, params, headers)
        if answer.status == 401:
            raise Unavailable("denied", f"{path}: HTTP status 401: the token is refused")
        if answer.status == 403:
            raise Unavailable("permission", f"{path}: HTTP status 403: the token lacks a privilege; PVEAuditor has it")
        if answer.status != 200:
            raise Unavailable("absent" if answer.status == 404 else "remote", f"{path}: HTTP status {answer.status}")
        return decode(answer.body, path)

    def _token(self) -> str:
        path = self._settings.token_file
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not ASCII"
            raise Unavailable("secret", f"token_file {path}: {detail}") from None
        token = lines[0].strip() if len(lines) == 1 else ""
        if "!" not in token or "=" not in token or not token.isprintable():
            raise Unavailable("secret", f"token_file {path}: expected one line USER@REALM!TOKENID=SECRET")
        return token
