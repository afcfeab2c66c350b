"""Asking a provider's service: one question, one answer or one error of ours, and no key in any text.

Statuses become errors whose `reason` tells how to go on: `denied` (the key: stop until it changes), `zone` (this zone
is not ours to ask for), `throttled` and `remote` (later). When to ask again is decided in cached.py, not here.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from pydantic import Field, model_validator

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.emission_factors.plugin import ProviderSettings
from kwhere.emission_factors.rows import parse_time
from kwhere.transport.credentials import check_base_url
from kwhere.transport.http import Answer, HttpClient
from kwhere.transport.secret_names import names_secret
from kwhere.transport.settings import HttpClientSettings

EXCERPT_LENGTH = 120
MOST_WAIT = timedelta(days=1)
"""A service that says to come back later than this is asked again then all the same."""
MOST_SKEW = timedelta(days=400)
_PATIENT = HttpClientSettings(read_timeout_seconds=20.0, total_timeout_seconds=60.0, max_answer_bytes=16 * 1024 * 1024)


class LiveSettings(ProviderSettings):
    """What every provider that asks a service can be told."""

    http: HttpClientSettings = Field(default=_PATIENT, description="Time limits, size limit, proxy, authorities.")
    zones: Mapping[str, str] = Field(
        default_factory=dict, description="The provider's own name of a zone, by the site's, where they differ."
    )
    refresh_seconds: float = Field(default=900.0, ge=300.0, description="Seconds between two questions about a zone.")

    def own_zone(self, zone: str) -> str:
        """Return what the provider calls the site's `zone`."""
        return self.zones.get(zone, zone)


class KeyedSettings(LiveSettings):
    """A service with a key: from a file or a variable of the environment, never from the settings themselves."""

    secret_file: Path | None = Field(default=None, description="File that holds the key, token or password, one line.")
    secret_environment: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Variable of the environment that holds it."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> "KeyedSettings":
        if (self.secret_file is None) == (self.secret_environment is None):
            raise ValueError("expected one of secret_file and secret_environment")
        return self

    def read_secret(self) -> str:
        """Return the key as it is now. Raises Unavailable(`secret`) that names where it should be, never what it is."""
        if self.secret_file is not None:
            place = f"secret_file {self.secret_file}"
            try:
                words = self.secret_file.read_text(encoding="ascii").split()
            except (OSError, UnicodeDecodeError) as error:
                detail = error.strerror if isinstance(error, OSError) else "not plain ASCII"
                raise Unavailable("secret", f"{place}: {detail}") from None
        else:
            place = f"secret_environment {self.secret_environment}"
            words = os.environ.get(str(self.secret_environment), "").split()
        if len(words) != 1:
            raise Unavailable("secret", f"{place}: expected one word, found {len(words)}")
        return words[0]

    def digest(self) -> str:
        """Return a digest of the key as it is now; see KeyedProvider."""
        return digest(self.read_secret())


def digest(secret: str) -> str:
    """Return what tells one key from another, and neither of them."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer. `said_at` is the service's own time, ours where it tells none: our clock may be wrong."""

    place: str
    body: bytes
    content_type: str
    said_at: datetime

    def json(self) -> object:
        """Return the JSON in it. Raises SourceError for HTML, for what is cut off, for anything else."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{self.place}: expected JSON, found {describe(self.body)}") from error

    def text(self) -> str:
        """Return it as text. Raises SourceError for what is not UTF-8."""
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.place}: expected UTF-8 text, found other bytes") from error


class Asker:
    """One service. Every text that leaves it is free of the secrets it was given.

    A key is shown by each question's own headers, as it is then; `token_file` is for the caller to read.
    """

    def __init__(self, url: str, settings: HttpClientSettings, clock: Clock, *, has_secret: bool = False) -> None:
        """`has_secret`: a key travels, so HTTPS it is, or loopback. Raises ConfigError."""
        check_base_url(url, bearer=has_secret)
        check_query(url)
        self._client = HttpClient(url, settings.model_copy(update={"token_file": None}))
        self._place = url.split("?", 1)[0].rstrip("/")
        self._clock = clock

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        secrets: Collection[str] = (),
        zone_statuses: Collection[int] = (),
        quotes: bool = True,
        label: str | None = None,
    ) -> Reply:
        """Return the answer to a GET, without `secrets` should it tell them back.

        `zone_statuses` mean that the zone, not the key, is refused. Without `quotes` no error says what was answered.
        `label` stands for a path with times in it: a failure that repeats has to look like one.
        """
        place = f"{self._place}{path if label is None else label}"
        try:
            # A few questions in a quarter of an hour: no connection is kept open for them.
            answer = self._client.get(path, params, {**(headers or {}), "Connection": "close"})
        except Unavailable as error:
            raise Unavailable(error.reason, scrub(str(error).replace(path, label or path), secrets)) from None
        except SourceError as error:
            raise SourceError(scrub(str(error).replace(path, label or path), secrets)) from None
        if answer.status != 200:
            words = f": {complaint(answer.body)}" if quotes else ""
            raise self._fault(answer, scrub(f"{place}: HTTP status {answer.status}{words}", secrets), zone_statuses)
        body = answer.body
        for secret in filter(None, secrets):
            body = body.replace(secret.encode(), b"...")
        return Reply(place, body, answer.headers.get("content-type", ""), self._said_at(answer))

    def now(self) -> datetime:
        """Return our own time."""
        return datetime.fromtimestamp(self._clock.utc_ns() / 1e9, UTC)

    def _fault(self, answer: Answer, text: str, zone_statuses: Collection[int]) -> Exception:
        wait = self._wait_seconds(answer)
        if answer.status in zone_statuses:
            return Unavailable("zone", text)
        if answer.status in (401, 403):
            return Unavailable("denied", text)
        if answer.status == 429:
            return Unavailable("throttled", text, retry_after_seconds=wait)
        if answer.status >= 500 or answer.status == 408:
            return Unavailable("remote", text, retry_after_seconds=wait)
        return SourceError(text)

    def _said_at(self, answer: Answer) -> datetime:
        """Return the Date of the answer; ours where it is absent or no date of this time at all."""
        said, ours = _http_date(answer.headers.get("date", "")), self.now()
        return said if said is not None and abs(said - ours) < MOST_SKEW else ours

    def _wait_seconds(self, answer: Answer) -> float | None:
        """Return Retry-After in seconds; a date in it is taken against the answer's own date."""
        said = answer.headers.get("retry-after", "").strip()
        until = _http_date(said)
        if said.isascii() and said.isdigit() and len(said) < 10:
            seconds = float(said)
        elif until is not None:
            seconds = (until - self._said_at(answer)).total_seconds()
        else:
            return None
        return min(max(0.0, seconds), MOST_WAIT.total_seconds())


def _http_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return parse_time(text)


def check_query(url: str) -> None:
    """Raise ConfigError where the query of `url` looks as if it held a key: settings and addresses are shown."""
    for pair in url.partition("?")[2].split("&"):
        name = pair.partition("=")[0]
        if names_secret(name):
            raise ConfigError(f"url: {name} belongs in a file (http.token_file), not in an address")


def scrub(text: str, secrets: Collection[str]) -> str:
    """Return `text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, "…") if secret else text
    return text


def complaint(body: bytes) -> str:
    """Return what an error's body says, short and on one line."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return describe(body)
    said = document
    for name in ("message", "error", "detail", "code"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
            if isinstance(said, dict):
                said = said.get("message") or said.get("code") or said
    return excerpt(said if isinstance(said, str) else json.dumps(said))


def describe(body: bytes) -> str:
    """Return what kind of body this is, with its beginning."""
    text = body[:2000].decode(errors="replace").strip()
    if not text:
        return "nothing"
    kind = "HTML" if re.match(r"<(!doctype html|html|head|body)", text, re.IGNORECASE) else "text"
    return f"{kind} {excerpt(re.sub(r'<[^>]*>', ' ', text) if kind == 'HTML' else text)!r}"


def excerpt(text: str) -> str:
    """Return the beginning of `text`, printable and on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"
