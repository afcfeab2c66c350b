"""Tokens (JWT) for slurmrestd: read from a file, printed by a command, or made with SLURM's own key; never shown."""

import base64
import hashlib
import hmac
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.transport.answers import AnswerTooLongError
from kwhere.transport.commands import run_command
from kwhere.transport.settings import HttpClientSettings

TOKEN_SECONDS = 600
_RENEW_SECONDS = 60
_SHORT_PARTS = 3
"""A token of less than three minutes is renewed when a third of its life is left."""
_COMMAND_SECONDS = 20.0
_MOST_BYTES = 1 << 16


class SlurmRestSettings(BaseModel):
    """How slurmrestd is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Address of slurmrestd, e.g. `https://slurm.example:6820`.")
    version: str = Field(
        default="v0.0.40", pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+$", description="Version of its API, v0.0.38 or later."
    )
    user: str = Field(
        default="slurm", pattern=r"^[A-Za-z0-9._-]+$", description="SLURM's user who asks; one who may see all jobs."
    )
    token_file: Path | None = Field(
        default=None, description="File with a token (JWT) that somebody renews; read anew for each request."
    )
    token_command: tuple[str, ...] = Field(
        default=(),
        description="Command that prints a token, e.g. `[scontrol, token, lifespan=1800]`; run again before that ends.",
    )
    key_file: Path | None = Field(
        default=None, description="SLURM's jwt_key: tokens of ten minutes are then made here, as they are needed."
    )
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="How it is spoken to: CA, certificate, time-outs."
    )


class Tokens:
    """The token of the next request."""

    def __init__(self, settings: SlurmRestSettings, clock: Clock) -> None:
        """Raises ConfigError."""
        sources = (settings.token_file is not None, bool(settings.token_command), settings.key_file is not None)
        if sum(sources) != 1:
            raise ConfigError("rest: expected one of token_file, token_command and key_file")
        self._settings = settings
        self._clock = clock
        self._held = ""
        self._made_seconds = 0
        self._until_seconds = 0

    def current(self) -> str:
        """Return a token that holds for a while yet, or what is in the file. Raises Unavailable."""
        if self._settings.token_file is not None:
            self._held = _read_token(self._settings.token_file)
            self._until_seconds = _ends_at(self._held) or 0
            return self._held
        now = self._clock.utc_ns() // NANOSECONDS_PER_SECOND
        # A clock that was set back makes a token look younger than it is.
        if now < self._made_seconds or now >= self._until_seconds - self._margin():
            self._held = self._sign(now) if self._settings.key_file is not None else self._ask()
            self._made_seconds = now
            self._until_seconds = _ends_at(self._held) or now + 2 * _RENEW_SECONDS
        return self._held

    def forget(self) -> None:
        """Get a new one next time: this one was refused."""
        self._made_seconds = self._until_seconds = 0

    def describe(self) -> str:
        """Return whose token it was and, where that is why it was refused, that it has ended; for messages."""
        now = self._clock.utc_ns() // NANOSECONDS_PER_SECOND
        late = now - (_ends_at(self._held) or now)
        ended = f"; it ended {late} s ago, renew it" if late > 0 else ""
        return f"the token of {self._settings.user} is refused{ended}"

    def _margin(self) -> int:
        return min(_RENEW_SECONDS, (self._until_seconds - self._made_seconds) // _SHORT_PARTS)

    def _sign(self, now: int) -> str:
        assert self._settings.key_file is not None
        try:
            key = self._settings.key_file.read_bytes()
        except OSError as error:
            raise Unavailable("permission", f"rest.key_file: cannot be read: {error.strerror}") from error
        if len(key) < 16:
            raise Unavailable("permission", "rest.key_file: expected a key of at least 16 bytes")
        claims = {"iat": now, "exp": now + TOKEN_SECONDS, "sun": self._settings.user}
        words = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        return f"{words}.{_encoded(hmac.new(key, words.encode(), hashlib.sha256).digest())}"

    def _ask(self) -> str:
        place = f"rest.token_command: {self._settings.token_command[0]}"
        try:
            done = run_command(
                self._settings.token_command, timeout_seconds=_COMMAND_SECONDS, max_output_bytes=_MOST_BYTES
            )
        except AnswerTooLongError as error:
            raise Unavailable(
                "permission", f"{place}: expected a token, found more than {_MOST_BYTES} bytes"
            ) from error
        if done.timed_out:
            raise Unavailable("timeout", f"{place}: no token within {_COMMAND_SECONDS:g} s")
        if done.exit_code != 0:
            words = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
            raise Unavailable("permission", f"{place}: ended with {done.exit_code}: {words or 'it said nothing'}")
        return _token_in(done.stdout.decode("ascii", "replace"), place)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(path: Path) -> str:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise Unavailable("permission", f"rest.token_file: {path} cannot be read: {type(error).__name__}") from error
    return _token_in(text, f"rest.token_file: {path}")


def _token_in(text: str, place: str) -> str:
    """Return the token of `SLURM_JWT=…` or of a bare one."""
    words = text.split()
    token = words[0].removeprefix("SLURM_JWT=") if words else ""
    if not token:
        raise Unavailable("permission", f"{place}: no token in it")
    if not token.isprintable() or not token.isascii():
        raise Unavailable("permission", f"{place}: expected a token, found other characters than one has")
    return token


def _ends_at(token: str) -> int | None:
    """Return the UTC second at which a token ends; None where it does not say. It is not checked: slurmrestd does."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, RecursionError):
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return int(end) if isinstance(end, int | float) and not isinstance(end, bool) and 0 < end < 2**40 else None
