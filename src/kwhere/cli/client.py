"""The server's REST API as the command line sees it: where it is, how to be let in, what an error means."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from kwhere.apps.configuration import default_state_dir
from kwhere.cli.settings_options import state_option
from kwhere.core.errors import ConfigError, KwhereError, NotFound, NotPermitted, SourceError, Unavailable
from kwhere.transport.http import Answer, HttpClient
from kwhere.transport.secret_files import read_secret_file

DEFAULT_URL = "http://127.0.0.1:9811"
_FOR_BROWSERS = "Access token needed"
"""Title of an answer whose text says what to do in a browser."""
_HOW = "name the file of an access token with --token-file (KWHERE_TOKEN_FILE), or put the token into KWHERE_TOKEN"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])
Json = dict[str, Any]


def server_options(command: CommandT, *, state_names: Sequence[str] = ("--state-dir", "--state")) -> CommandT:
    """Add the options that say which server to ask."""
    for option in (
        click.option("--server", envvar="KWHERE_SERVER", help="Address of the server  [that of `kwhere up`]"),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="KWHERE_TOKEN_FILE",
            help="File with the access token  [KWHERE_TOKEN, else that of `kwhere up`]",
        ),
        state_option("State directory of `kwhere up`", state_names),
    ):
        command = option(command)
    return command


class Api:
    """GET on `/api/v1`; a problem becomes an error of ours. Nothing is read before the first question."""

    def __init__(self, server: str | None, token_file: Path | None, state: Path | None) -> None:
        state = state or default_state_dir(os.environ)
        url = server or _read(state / "url") or DEFAULT_URL
        self.url = url.rstrip("/")
        self._token_files = (token_file, None if server else state / "token")

    @cached_property
    def _client_token(self) -> str | None:
        return _token(*self._token_files)

    @cached_property
    def _client(self) -> HttpClient:
        client = HttpClient(self.url, token=self._client_token)
        command = click.get_current_context(silent=True)
        if command is not None:
            command.call_on_close(client.close)
        return client

    def get(self, path: str, params: Mapping[str, str | None] | None = None) -> Json:
        """Return the answer's object. Raises NotFound, NotPermitted, Unavailable, SourceError."""
        given = {key: value for key, value in (params or {}).items() if value is not None}
        try:
            answer = self._client.get(f"/api/v1{path}", params=given)
        except Unavailable as error:
            hint = " (start it with `kwhere up`, or name it with --server)" if error.reason == "refused" else ""
            raise Unavailable(error.reason, f"{self.url}: no answer: {error.reason}{hint}") from error
        if answer.status != 200:
            raise problem(self.url, answer, token_was_sent=bool(self._client_token))
        return _object(self.url, answer)

    def pages(self, path: str, params: Mapping[str, str | None], limit: int) -> Iterator[Json]:
        """Yield up to `limit` items over as many pages as that takes."""
        left, after = limit, None
        while left > 0:
            page = self.get(path, {**params, "limit": str(min(left, 1000)), "after": after})
            yield from page["items"][:left]
            left -= len(page["items"])
            after = page.get("next")
            if after is None:
                return


def problem(url: str, answer: Answer, *, token_was_sent: bool = False) -> KwhereError:
    """Return the error that a problem document (RFC 9457) stands for."""
    title, text = _said(answer)
    if answer.status == 404:
        return NotFound(text)
    if answer.status == 401:
        if title == _FOR_BROWSERS:
            text = "it does not know the token that was sent" if token_was_sent else ""
        return NotPermitted(f"{url}: not permitted: {text}{'; ' if text else ''}{_HOW}")
    if answer.status == 403:
        return NotPermitted(f"{url}: not permitted: {text}")
    if answer.status in (400, 422):
        return ConfigError(text)  # what was typed: it begins with the parameter's name
    return SourceError(f"{url}: {text}")


def _said(answer: Answer) -> tuple[str | None, str]:
    """Return the title of a problem and what it says in words."""
    try:
        document = json.loads(answer.body)
        return document.get("title"), str(document.get("detail") or document.get("title"))
    except (ValueError, AttributeError):
        return None, f"HTTP status {answer.status}"


def _object(url: str, answer: Answer) -> Json:
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SourceError(f"{url}: expected a JSON object, found {answer.text[:60]!r}")
    return value


def _token(named: Path | None, default: Path | None) -> str | None:
    if named is not None:
        return _token_in(named)
    if given := os.environ.get("KWHERE_TOKEN"):
        return _checked(given, "KWHERE_TOKEN")
    return _token_in(default) if default is not None and os.path.lexists(default) else None


def _token_in(path: Path) -> str:
    try:
        content = read_secret_file(path, "this token")
    except ConfigError as error:
        raise NotPermitted(f"{error}; not permitted without an access token") from error
    return _checked(content.decode(errors="replace"), str(path))


def _checked(text: str, place: str) -> str:
    """Return a token as a header can hold it. Raises NotPermitted; the token is not shown."""
    token = text.strip()
    if not token:
        raise NotPermitted(f"{place}: not permitted: expected an access token, found nothing")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise NotPermitted(f"{place}: not permitted: expected an access token, found blanks or other signs in it")
    return token


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
