"""Power or energy from any HTTP service that answers in JSON: PDUs, Kwollect; asked on a thread of its own."""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.devices.json_answer import JsonValue, finite, parse_json
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.http_json_settings import HttpJsonSettings, JsonReading
from kwhere.meters.json_path import parse_path
from kwhere.meters.meter import PLATFORM, Domain, MeterContext, Plugin, Reading
from kwhere.meters.node_url import question_url
from kwhere.meters.sample_clock import CounterClock, SampleClock

if TYPE_CHECKING:
    from kwhere.transport.device_access import Login
    from kwhere.transport.http import HttpClient

SOURCE = "http_json"
STUCK_SECONDS = 300.0
WRONG_PASSWORD_SECONDS = 300.0
"""A password that was refused is not tried again sooner: devices lock accounts."""
REFRESH_AFTER_CHANGE_SECONDS = 1.0
MAX_MICROWATTS = 1_000_000_000_000
_GIVE_UP_MARGIN_SECONDS = 5.0
_MAX_STAMP = 64
_DECIMAL = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
"""Prometheus and others write numbers as text."""


class HttpJsonSource(BlockingSource):
    """Asks every address once and takes all figures out of the answers."""

    def __init__(
        self, settings: HttpJsonSettings, places: Sequence[tuple[JsonReading, str]], context: MeterContext
    ) -> None:
        """`places` are the readings with their addresses filled in. Raises ConfigError, Unavailable(`credentials`)."""
        from kwhere.transport.credentials import check_base_url
        from kwhere.transport.device_access import device_tls, read_bearer, read_login
        from kwhere.transport.http import HttpClient

        self._settings = settings
        self._places = tuple(places)
        self._clock_ns = context.clock_ns
        self._login: Login | None = read_login(settings.client)
        self._bearer = read_bearer(settings.client)
        plain = settings.client.model_copy(update={"token_file": None})
        tls = device_tls(settings.client)
        self._clients: dict[str, HttpClient] = {}
        for url in dict.fromkeys(url for _, url in places):
            check_base_url(url, bearer=self._login is not None or self._bearer is not None)
            self._clients[url] = HttpClient(url, plain, tls=tls)
        stuck = max(STUCK_SECONDS, 3 * settings.refresh_seconds)
        self._samples = [SampleClock(reading.path, stuck) for reading, _ in places]
        self._counters = [CounterClock() for _ in places]
        self._lock = Lock()
        self._closed = False

    def ask(self) -> Sequence[Reading]:
        """Return all figures. Raises Unavailable, SourceError where one of them is missing: half a node is none."""
        with self._lock:
            if self._closed:
                raise Unavailable("closed", f"{SOURCE}: the agent ends")
            deadline_ns = self._clock_ns() + int(self._settings.client.total_timeout_seconds * 1e9)
            answers = {url: self._ask(client, deadline_ns) for url, client in self._clients.items()}
        now_ns = self._clock_ns()
        found = [take_figure(reading, answers[url], urlsplit(url).path or "/") for reading, url in self._places]
        if self._places[0][0].unit.is_power:
            return self._powers(found, now_ns)
        return [
            Reading(_domain(reading), f"{number}:{reading.path}", clock.time_of(figure, now_ns), counter_uj=figure)
            for number, ((reading, _), clock, (figure, _)) in enumerate(
                zip(self._places, self._counters, found, strict=True)
            )
        ]

    def close(self) -> None:
        """Give back the connections; a question under way keeps its own until it ends."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                for client in self._clients.values():
                    client.close()
            finally:
                self._lock.release()

    def _powers(self, found: Sequence[tuple[int, str]], now_ns: int) -> list[Reading]:
        """Return one power per domain; a sum is as old as its oldest part."""
        sums: dict[Domain, tuple[int, int]] = {}
        for (reading, _), clock, (figure, stamp) in zip(self._places, self._samples, found, strict=True):
            time_ns = clock.time_of(figure, stamp, now_ns)
            power, oldest = sums.get(_domain(reading), (0, time_ns))
            sums[_domain(reading)] = power + figure, min(oldest, time_ns)
        for domain, (power, _) in sums.items():
            if power == 0:
                raise Unavailable("absent", f"{SOURCE}: {domain}: expected a power above 0, found 0 W in all")
        return [Reading(domain, str(domain), time_ns, power_uw=power) for domain, (power, time_ns) in sums.items()]

    def _ask(self, client: "HttpClient", deadline_ns: int) -> JsonValue:
        left = (deadline_ns - self._clock_ns()) / 1e9
        if left <= 0:
            raise Unavailable("timeout", f"{SOURCE}: the services did not answer in time")
        answer = client.get("", headers=self._headers(), timeout_seconds=left)
        if answer.status == 200:
            return parse_json(answer.body, SOURCE)
        reason = {401: "unauthorized", 403: "permission", 404: "not_found", 429: "busy", 503: "busy"}.get(answer.status)
        said = f"{SOURCE}: HTTP status {answer.status}"
        if reason is None and answer.status < 500:
            raise SourceError(f"{said}, expected 200")
        if answer.status == 401:
            wait_seconds = REFRESH_AFTER_CHANGE_SECONDS if self._has_other_credentials() else WRONG_PASSWORD_SECONDS
            raise Unavailable("unauthorized", said, retry_after_seconds=wait_seconds)
        wait = answer.headers.get("retry-after", "")
        seconds = min(float(wait), 3600.0) if wait.isascii() and wait.isdigit() and len(wait) < 10 else None
        raise Unavailable(reason or "server_error", said, retry_after_seconds=seconds)

    def _has_other_credentials(self) -> bool:
        """Return whether password or token were changed since they were read; what they are now counts from here."""
        from kwhere.transport.device_access import read_bearer, read_login

        before = self._login, self._bearer
        with contextlib.suppress(Unavailable):  # as root they could be read, now perhaps not any more
            self._login, self._bearer = read_login(self._settings.client), read_bearer(self._settings.client)
        return before != (self._login, self._bearer)

    def _headers(self) -> Mapping[str, str]:
        headers = {"Accept": "application/json"}
        if self._login is not None:
            headers["Authorization"] = self._login.basic()
        elif self._bearer is not None:
            headers["Authorization"] = f"Bearer {self._bearer}"
        return headers


def take_figure(reading: JsonReading, document: JsonValue, place: str) -> tuple[int, str]:
    """Return the figure in microwatts or microjoules and the stamp beside it, "" without one.

    Raises Unavailable(`absent`) for nothing, null, text, NaN, less than 0; SourceError for several without a time.
    """
    values = parse_path(reading.path).find(document)
    if not values:
        raise Unavailable("absent", f"{place}: expected something at {reading.path!r}, found nothing")
    stamp = ""
    if reading.time_path is not None:
        stamps = [_moment(value, place) for value in parse_path(reading.time_path).find(document)]
        if len(stamps) != len(values):
            raise SourceError(f"{place}: expected a time for each figure, found {len(values)} and {len(stamps)}")
        newest = max(range(len(stamps)), key=lambda number: stamps[number])
        values, stamp = [values[newest]], repr(stamps[newest])
    if len(values) != 1:
        raise SourceError(f"{place}: expected one figure at {reading.path!r}, found {len(values)}")
    return _micro(reading, values[0], place), stamp


def _micro(reading: JsonReading, value: JsonValue, place: str) -> int:
    figure = float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else finite(value)
    most = MAX_MICROWATTS if reading.unit.is_power else 1 << 62
    if figure is None or not 0 <= figure * reading.unit.micro < most:
        found = repr(value)[:40]
        raise Unavailable("absent", f"{place}: {reading.path}: expected 0 {reading.unit} or more, found {found}")
    return round(figure * reading.unit.micro)


def _moment(value: JsonValue, place: str) -> float:
    """Return epoch seconds, only to be compared with others of the same source."""
    number = finite(value)
    if number is not None:
        return float(number)
    if isinstance(value, str) and len(value) <= _MAX_STAMP:
        try:
            moment = datetime.fromisoformat(value)
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
        if math.isfinite(seconds):
            return seconds
    raise SourceError(f"{place}: expected a time (ISO 8601 or epoch seconds), found {repr(value)[:40]}")


def _domain(reading: JsonReading) -> Domain:
    return Domain(reading.domain, reading.index)


def build(context: MeterContext) -> BackgroundMeter:
    """Return the meter; nothing is asked yet. Raises Unavailable: unconfigured, recorded, credentials."""
    settings = context.settings.http_json
    if not settings.readings:
        raise Unavailable("unconfigured", "meters.http_json.readings: none are set")
    if context.fs.is_recorded:
        raise Unavailable("recorded", f"{SOURCE}: for a recorded host no service is asked")
    places = [(reading, question_url(reading.url, settings.node_name, context.node)) for reading in settings.readings]
    try:
        source = HttpJsonSource(settings, places, context)
    except ConfigError as error:
        raise Unavailable("credentials", f"meters.http_json: {error}") from error
    domains = tuple(sorted({_domain(reading) for reading in settings.readings}))
    inside = frozenset(Component) if settings.includes_gpus else frozenset(Component) - {Component.GPU}
    facts = SlowFacts(
        SOURCE,
        domains,
        inside if PLATFORM in domains else frozenset(),
        refresh_seconds=settings.refresh_seconds,
        give_up_seconds=settings.client.total_timeout_seconds + _GIVE_UP_MARGIN_SECONDS,
        p_max_uw=_p_max_uw(domains, context.settings.platform_headroom_uw),
        method=Method.INTEGRATED if settings.readings[0].unit.is_power else Method.COUNTER,
    )
    return BackgroundMeter(facts, source, context.clock_ns)


def _p_max_uw(domains: Sequence[Domain], headroom_uw: int) -> int:
    """Return the largest plausible power; a meter of parts alone is judged by the largest part."""
    if PLATFORM in domains:
        return headroom_uw
    is_memory = all(domain.kind is DomainKind.DRAM for domain in domains)
    return P_MAX_DRAM_UW if is_memory else P_MAX_MULTI_DIE_UW


plugin = Plugin(SOURCE, build)
