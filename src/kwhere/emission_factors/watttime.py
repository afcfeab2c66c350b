"""What one kWh more would emit: WattTime's marginal rate, version 3. A user name and password.

Marginal factors answer "what if I shift load", never "what is my footprint": they stand beside the reported ones.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, KeyedSettings, Reply
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.rows import (
    Origin,
    Row,
    in_order,
    listed,
    parse_grams,
    parse_time,
    pieces,
    some,
    span_of,
    up_to,
    utc_text,
)

NAME = "watttime"
GRAMS_PER_POUND = 453.59237
GRAMS_PER_KWH = {
    "lbs_co2_per_mwh": GRAMS_PER_POUND / 1000,
    "lbs_co2e_per_mwh": GRAMS_PER_POUND / 1000,
    "lb_co2_per_mwh": GRAMS_PER_POUND / 1000,
    "kg_co2_per_mwh": 1.0,
    "kg_co2e_per_mwh": 1.0,
    "g_co2_per_kwh": 1.0,
}
"""What one of each unit is in g/kWh; an unknown unit is refused, not guessed."""
MOST_ASKED = timedelta(days=30)
MOST_HORIZON_HOURS = 72
DEFAULT_STEP = timedelta(minutes=5)
LONGEST_STEP = timedelta(hours=1)


class WattTimeSettings(KeyedSettings):
    """An account; its password is the secret."""

    url: str = Field(default="https://api.watttime.org", description="Address of the service.")
    username: str = Field(min_length=1, pattern=r"^[^:]+$", description="Name of the account.")


class WattTimeProvider:
    """Regions in the service's own words (`CAISO_NORTH`); `zones` translates."""

    def __init__(self, settings: WattTimeSettings, clock: Clock, *, name: str, signal: str, basis: Basis) -> None:
        self.name = name
        self._settings = settings
        self._signal = signal
        self._basis = basis
        self._asker = Asker(settings.url, settings.http, clock, has_secret=True)
        self._token: str | None = None
        self.refresh_seconds = settings.refresh_seconds

    def key_digest(self) -> str:
        """Return a digest of the password at present."""
        return self._settings.digest()

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors within `span`."""
        rows: list[Row] = []
        count, reply = 0, None
        for piece in pieces(span, MOST_ASKED):
            params = {"start": utc_text(piece.start), "end": utc_text(piece.end)}
            reply = self._ask("/v3/historical", zone, params)
            points = read_points(reply, self._signal)
            count += len(points)
            rows += points
        assert reply is not None
        found = some(in_order(up_to(rows, reply.said_at), span), count, reply.place)
        return self._origin(zone).factors(found, self._asker.now())

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the forecast within `span`, up to 72 hours ahead."""
        hours = int((span.end - self._asker.now()).total_seconds() // 3600) + 1
        params = {"horizon_hours": str(min(max(hours, 1), MOST_HORIZON_HOURS))}
        reply = self._ask("/v3/forecast", zone, params)
        points = read_points(reply, self._signal)
        made_at = _generated(reply.json())
        rows = [Row(point.span, point.grams_per_kwh, Quality.FORECAST, made_at) for point in points]
        return self._origin(zone).factors(some(in_order(rows, span), len(rows), reply.place), self._asker.now())

    def _origin(self, zone: str) -> Origin:
        source = f"WattTime v3 {self._signal} ({self._basis}, direct); by licence of one's account"
        own = self._settings.own_zone(zone)
        # The marginal plant answers what is consumed where the load is.
        return Origin(self.name, own, self._basis, Scope.DIRECT, System.CONSUMPTION, source)

    def _ask(self, path: str, zone: str, more: Mapping[str, str]) -> Reply:
        """Return an answer; where the token is refused, one more with a fresh token, and no third."""
        params = {"region": self._settings.own_zone(zone), "signal_type": self._signal, **more}
        if self._token is not None:
            try:
                return self._with_token(path, params, self._token)
            except Unavailable as error:
                if error.reason not in ("denied", "zone"):
                    raise
        self._token = None
        token = self._log_in()
        reply = self._with_token(path, params, token)
        self._token = token
        return reply

    def _with_token(self, path: str, params: Mapping[str, str], token: str) -> Reply:
        headers = {"Authorization": f"Bearer {token}"}
        secrets = [token, self._settings.read_secret()]
        # A good token that is refused: the region is not in the subscription.
        return self._asker.get(path, params, headers, secrets=secrets, zone_statuses=(403, 404))

    def _log_in(self) -> str:
        password = self._settings.read_secret()
        basic = base64.b64encode(f"{self._settings.username}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}"}
        reply = self._asker.get("/login", headers=headers, secrets=[password, basic], quotes=False)
        try:
            document = reply.json()
        except SourceError:
            document = None
        token = document.get("token") if isinstance(document, dict) else None
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise SourceError(f"{reply.place}: expected a token, found none")
        return token


def read_points(reply: Reply, signal: str) -> list[Row]:
    """Return the points of an answer in g/kWh. Raises SourceError for another unit or signal than was asked for."""
    document = reply.json()
    points = listed(document, ["data"], reply.place)
    meta = document.get("meta") if isinstance(document, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    factor = GRAMS_PER_KWH.get(str(meta.get("units")).lower())
    if factor is None:
        raise SourceError(f"{reply.place}: expected units lbs_co2_per_mwh, found {str(meta.get('units'))[:40]!r}")
    if meta.get("signal_type", signal) != signal:
        raise SourceError(f"{reply.place}: expected signal_type {signal}, found {str(meta['signal_type'])[:40]!r}")
    step = _step(meta.get("data_point_period_seconds"))
    found = []
    for point in points:
        grams = parse_grams(point.get("value"), factor)
        span = span_of(parse_time(point.get("point_time")), step)
        if grams is not None and span is not None:
            found.append(Row(span, grams, Quality.ESTIMATED))
    if points and not found:
        raise NoData(f"{reply.place}: none of {len(points)} points has a value")
    return found


def _step(seconds: object) -> timedelta:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return DEFAULT_STEP
    return timedelta(seconds=seconds) if 0 < seconds <= LONGEST_STEP.total_seconds() else DEFAULT_STEP


def _generated(document: object) -> datetime | None:
    meta = document.get("meta") if isinstance(document, dict) else None
    return parse_time(meta.get("generated_at")) if isinstance(meta, dict) else None


def builder(name: str, signal: str, basis: Basis) -> Callable[[WattTimeSettings, Clock], WattTimeProvider]:
    """Return what builds the provider of one signal."""

    def build(settings: WattTimeSettings, clock: Clock) -> WattTimeProvider:
        return WattTimeProvider(settings, clock, name=name, signal=signal, basis=basis)

    return build


plugin = ProviderPlugin(
    name=NAME,
    summary="What one kWh more would emit (WattTime v3, MOER): marginal, direct. Needs an account.",
    settings_class=WattTimeSettings,
    basis=Basis.MARGINAL,
    build=builder(NAME, "co2_moer", Basis.MARGINAL),
    is_live=True,
)
