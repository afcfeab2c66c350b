"""The API of a `kwhere up` on this machine, found through its state directory: as `run` and `doctor` ask it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kwhere.core.errors import NotPermitted, SourceError, Unavailable

ANSWER_SECONDS = 5.0
Ask = Callable[[str], dict[str, Any]]


def has_server(state_dir: Path) -> bool:
    """Return whether a server was started with `state_dir`; it may have ended since."""
    return (state_dir / "url").exists()


def server_of(state_dir: Path, answer_seconds: float = ANSWER_SECONDS) -> Ask:
    """Return a GET of a path below the API. It raises Unavailable, NotPermitted, SourceError."""

    def ask(path: str) -> dict[str, Any]:
        # the HTTP client costs time that a command without a server does without
        from kwhere.transport.http import HttpClient
        from kwhere.transport.settings import HttpClientSettings

        url = _word_in(state_dir / "url")
        if url is None:
            raise Unavailable("absent", f"{state_dir / 'url'}: names no server")
        limits = HttpClientSettings(connect_timeout_seconds=answer_seconds, read_timeout_seconds=answer_seconds)
        with HttpClient(url, limits, token=_word_in(state_dir / "token")) as client:
            answer = client.get(f"/api/v1{path}")
        if answer.status in (401, 403):
            raise NotPermitted(f"{url}: status {answer.status}")
        if answer.status != 200:
            raise Unavailable("refused", f"{url}: status {answer.status}")
        return _object(url, answer.body)

    return ask


def _object(url: str, body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise SourceError(f"{url}: expected a JSON object, found {body[:60]!r}")
    return document


def _word_in(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
