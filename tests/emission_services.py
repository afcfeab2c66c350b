"""The services of emission factors, served on loopback in the shapes they were recorded in; faults on demand."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECRET = "s3cret-Key-0123456789"
TOKEN = "t0ken-of-the-login-987"


class HandClock:
    """A clock that a test moves; `skew_seconds` makes its wall time wrong."""

    def __init__(self, now: datetime = NOON, skew_seconds: float = 0.0) -> None:
        self.now = now
        self.skew_seconds = skew_seconds
        self._monotonic_ns = 10**12

    def ahead(self, **parts: float) -> None:
        step = timedelta(**parts)
        self.now += step
        self._monotonic_ns += int(step.total_seconds() * 1e9)

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def boottime_ns(self) -> int:
        return self._monotonic_ns

    def utc_ns(self) -> int:
        return int((self.now.timestamp() + self.skew_seconds) * 1e9)


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Said:
    """One answer."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    """Cut off in the middle."""
    slow: bool = False
    """Not before the service ends."""


Route = Callable[[Asked], Said]


def said(document: object, status: int = 200, **headers: str) -> Said:
    return Said(json.dumps(document).encode(), status, {"Content-Type": "application/json", **headers})


class Service:
    """A service that a test runs: what it was asked, and what it does wrong."""

    def __init__(self, route: Route, clock: HandClock) -> None:
        self.route = route
        self.clock = clock
        self.fault: Said | None = None
        """Said instead of every answer."""
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self.url = ""

    def answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        return self.fault or self.route(asked)


@contextmanager
def serving(route: Route, clock: HandClock) -> Iterator[Service]:
    """Yield a service on loopback; its Date is the clock's true time."""
    service = Service(route, clock)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = service.answer(Asked(parts.path, query, headers))
            if answer.slow:
                service.over.wait(20)
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            self.send_header("Date", format_datetime(service.clock.now, usegmt=True))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.send_header("Content-Length", str(len(answer.body) + (10 if answer.closes else 0)))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that gives up is what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        service.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def steps(start: datetime, end: datetime, minutes: int) -> Iterator[datetime]:
    """Yield the starts of steps that touch [start, end), aligned to the hour."""
    step = timedelta(minutes=minutes)
    at = start.replace(minute=0, second=0, microsecond=0)
    while at < end:
        if at + step > start:
            yield at
        at += step


def grams_at(moment: datetime) -> float:
    """Return a figure that differs by time and is easy to tell: 20 and the hour, and a half at odd minutes."""
    return 20 + moment.hour + (0.5 if moment.minute else 0)


def rte_route(clock: HandClock) -> Route:
    """ODRÉ: newest first, 100 at most; rows of the whole day exist, those after half an hour ago are null."""

    def route(asked: Asked) -> Said:
        start, end = (parse(part) for part in asked.query["where"].split("'")[1::2])
        last = clock.now - timedelta(minutes=30)
        day_end = clock.now.replace(hour=23, minute=59)
        starts = [at for at in steps(start, min(end, day_end), 15) if start < at < end]
        rows = [
            {"taux_co2": int(grams_at(at)) if at <= last else None, "date_heure": at.isoformat()}
            for at in reversed(starts)
        ]
        offset, limit = int(asked.query["offset"]), int(asked.query["limit"])
        return said({"total_count": len(rows), "results": rows[offset : offset + limit]})

    return route


def electricity_maps_route(clock: HandClock) -> Route:
    """Both versions: history of 24 hours, the latest, past-range, forecast, zones."""

    def figure(at: datetime) -> dict[str, object]:
        return {
            "zone": "FR",
            "carbonIntensity": grams_at(at),
            "datetime": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "updatedAt": (at + timedelta(minutes=41)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "createdAt": (at - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "emissionFactorType": "lifecycle",
            "isEstimated": at > clock.now - timedelta(hours=2),
            "estimationMethod": None,
        }

    def route(asked: Asked) -> Said:
        if asked.headers.get("auth-token") != SECRET:
            return said({"status": "error", "message": "Invalid auth-token"}, 401)
        version, what = asked.path.split("/")[1], asked.path.rpartition("/")[2]
        if what == "zones":
            return said({"FR": {"zoneName": "France", "access": ["carbon-intensity/latest", "*"]}})
        if asked.query["zone"] != "FR":
            return said({"error": "Zone not in plan"}, 403)
        hour = clock.now.replace(minute=0, second=0, microsecond=0)
        if what == "latest":
            return said(figure(hour) if version == "v3" else {"zone": "FR", "data": [figure(hour)]})
        if what == "forecast":
            ahead = [figure(hour + timedelta(hours=step)) for step in range(25)]
            items = [{"carbonIntensity": item["carbonIntensity"], "datetime": item["datetime"]} for item in ahead]
            return said({"zone": "FR", "forecast": items, "updatedAt": text(clock.now)})
        if what == "past-range":
            start, end = parse(asked.query["start"]), parse(asked.query["end"])
            return said({"zone": "FR", "data": [figure(at) for at in steps(start, min(end, hour), 60)]})
        past = [figure(hour - timedelta(hours=step)) for step in range(24, 0, -1)]
        return said({"zone": "FR", "history" if version == "v3" else "data": past})

    return route


def neso_route(clock: HandClock) -> Route:
    """National: actual up to the last whole slot; regional: nested, forecast alone."""

    def slot(at: datetime, *, regional: bool) -> dict[str, object]:
        end = at + timedelta(minutes=30)
        intensity: dict[str, object] = {"forecast": int(grams_at(at)) + 100, "index": "moderate"}
        if not regional:
            intensity["actual"] = int(grams_at(at)) if end <= clock.now else None
        return {"from": at.strftime("%Y-%m-%dT%H:%MZ"), "to": end.strftime("%Y-%m-%dT%H:%MZ"), "intensity": intensity}

    def route(asked: Asked) -> Said:
        parts = asked.path.strip("/").split("/")
        regional = parts[0] == "regional"
        edges = parts[parts.index("intensity") + 1 :]
        start, end = parse(edges[0]), min(parse(edges[1]), clock.now + timedelta(hours=48))
        if end - start > timedelta(days=14):
            return said({"error": {"code": "400 Bad Request", "message": "Maximum date range is 14 days."}}, 400)
        slots = [slot(at, regional=regional) for at in steps(start, end, 30)]
        if not regional:
            return said({"data": slots})
        return said({"data": {"regionid": 12, "shortname": "South England", "postcode": "RG10", "data": slots}})

    return route


def watttime_route(clock: HandClock, signal: str) -> Route:
    """Login by Basic, then Bearer; five minutes, in pounds per megawatt-hour."""
    credentials = "Basic c2l0ZTpzM2NyZXQtS2V5LTAxMjM0NTY3ODk="  # site:SECRET

    def answer(points: list[dict[str, object]]) -> Said:
        meta = {
            "region": "CAISO_NORTH",
            "signal_type": signal,
            "units": "lbs_co2_per_mwh",
            "data_point_period_seconds": 300,
            "model": {"date": "2026-03-01"},
            "generated_at": text(clock.now),
            "warnings": [],
        }
        return said({"data": points, "meta": meta})

    def point(at: datetime) -> dict[str, object]:
        return {"point_time": at.isoformat(), "value": 1000.0 + at.hour, "version": "2026-03-01"}

    def route(asked: Asked) -> Said:
        if asked.path == "/login":
            good = asked.headers.get("authorization") == credentials
            return said({"token": TOKEN}) if good else said({"error": "unauthorized"}, 401)
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return said({"error": "token expired"}, 401)
        if asked.query["region"] != "CAISO_NORTH":
            return said({"error": "region not in your subscription"}, 403)
        if asked.path == "/v3/forecast":
            until = clock.now + timedelta(hours=int(asked.query["horizon_hours"]))
            return answer([point(at) for at in steps(clock.now, until, 5)])
        start, end = parse(asked.query["start"]), min(parse(asked.query["end"]), clock.now - timedelta(minutes=10))
        return answer([point(at) for at in steps(start, end, 5)])

    return route


ENTSOE_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
GL = 'xmlns="urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0"'


def entsoe_series(
    code: str,
    start: datetime,
    points: Mapping[int, object],
    *,
    hours: int,
    resolution: str = "PT60M",
    curve: str = "A03",
    domain: str = "in",
) -> str:
    end = start + timedelta(hours=hours)
    inside = "".join(f"<Point><position>{p}</position><quantity>{q}</quantity></Point>" for p, q in points.items())
    return (
        f"<TimeSeries><mRID>1</mRID><businessType>A01</businessType><objectAggregation>A08</objectAggregation>"
        f'<{domain}BiddingZone_Domain.mRID codingScheme="A01">10YFR-RTE------C</{domain}BiddingZone_Domain.mRID>'
        f"<quantity_Measure_Unit.name>MAW</quantity_Measure_Unit.name><curveType>{curve}</curveType>"
        f"<MktPSRType><psrType>{code}</psrType></MktPSRType>"
        f"<Period><timeInterval><start>{start:%Y-%m-%dT%H:%MZ}</start><end>{end:%Y-%m-%dT%H:%MZ}</end></timeInterval>"
        f"<resolution>{resolution}</resolution>{inside}</Period></TimeSeries>"
    )


def entsoe_document(*series: str) -> str:
    return f"{ENTSOE_HEAD}<GL_MarketDocument {GL}><mRID>x</mRID><type>A75</type>{''.join(series)}</GL_MarketDocument>"


def entsoe_refusal(code: str, words: str) -> str:
    name = "urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0"
    return (
        f'{ENTSOE_HEAD}<Acknowledgement_MarketDocument xmlns="{name}"><mRID>x</mRID>'
        f"<Reason><code>{code}</code><text>{words}</text></Reason></Acknowledgement_MarketDocument>"
    )


def entsoe_route(clock: HandClock) -> Route:
    """Actual generation up to the last whole hour: nuclear, gas, wind; pumping goes out."""

    def route(asked: Asked) -> Said:
        if asked.query.get("securityToken") != SECRET:
            return Said(b"<html><body>Unauthorized. Missing or invalid security token</body></html>", 401)
        start = datetime.strptime(asked.query["periodStart"], "%Y%m%d%H%M").replace(tzinfo=UTC)
        end = datetime.strptime(asked.query["periodEnd"], "%Y%m%d%H%M").replace(tzinfo=UTC)
        last = clock.now.replace(minute=0, second=0, microsecond=0)
        hours = int((min(end, last) - start).total_seconds() // 3600)
        if hours <= 0:
            return Said(entsoe_refusal("999", "No matching data found").encode())
        series = [
            entsoe_series("B14", start, {1: 8000}, hours=hours),
            entsoe_series("B04", start, {n + 1: 1000 + n for n in range(hours)}, hours=hours),
            entsoe_series("B19", start, {1: 1000}, hours=hours),
            entsoe_series("B10", start, {1: 500}, hours=hours, domain="out"),
        ]
        return Said(entsoe_document(*series).encode(), headers={"Content-Type": "text/xml"})

    return route


def file_route(clock: HandClock) -> Route:
    """A site's own CSV: hours of a day before and after, in kilograms per megawatt-hour."""

    def route(asked: Asked) -> Said:
        first = clock.now - timedelta(days=15)
        lines = [f"{text(at)},{grams_at(at)}" for at in steps(first, clock.now + timedelta(days=1), 60)]
        return Said("\n".join(["start,grams_per_kwh", *lines]).encode(), headers={"Content-Type": "text/csv"})

    return route
