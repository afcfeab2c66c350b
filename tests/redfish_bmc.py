"""A BMC's Redfish service on loopback: sessions, both power models, vendors' shapes, restarts, and faults on demand."""

import base64
import json
import secrets
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kwhere.transport.device_settings import DeviceClientSettings

USER = "monitor"
PASSWORD = "s3cret pass-word: ü"
SESSIONS = "/redfish/v1/SessionService/Sessions"
Tree = Mapping[str, Any]
Fault = Callable[["Handler"], bool]
"""Answers a request instead of the BMC and returns true, or leaves it."""


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Bmc:
    """One BMC; `tree` maps paths to resources, in which a function stands for what it returns at each answer."""

    tree: Tree
    watts: Any = 300
    stamp: str = "2026-11-30T00:00:00Z"
    fault: Fault | None = None
    session_limit: int = 16
    slash: bool = False
    """Whether resources live at paths with a slash at the end, as HPE's do; others are redirected there."""
    asked: list[Asked] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """Session id → token."""
    logins: int = 0
    password: str = PASSWORD
    tls: ssl.SSLContext | None = None
    port: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Bmc":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, at the same port as before."""
        bmc = self

        class Bound(Handler):
            owner = bmc

        self._server = Server(("127.0.0.1", self.port), Bound)
        self.port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, as at a restart; sessions are forgotten, open connections end."""
        self.release.set()
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_connections()  # type: ignore[attr-defined]
        self._server = None
        self.sessions.clear()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        """Return what was asked, sessions left out."""
        return [asked.path for asked in self.asked if SESSIONS not in asked.path]

    def is_known(self, headers: Mapping[str, str]) -> bool:
        token = headers.get("X-Auth-Token", "")
        if token:
            return token in self.sessions.values()
        expected = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        return headers.get("Authorization") == f"Basic {expected}"


class Server(ThreadingHTTPServer):
    """Ends its connections with itself."""

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        for request in list(self._open):
            self.shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that goes away is what some tests are about


class Handler(BaseHTTPRequestHandler):
    """Redfish, as far as a reader of power needs it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Bmc

    def do_GET(self) -> None:
        if self._is_faulty():
            return
        bmc, path = self.owner, self.path.rstrip("/")
        if path == "/redfish/v1":
            self.say(200, {"Chassis": {"@odata.id": "/redfish/v1/Chassis"}})
        elif not bmc.is_known(self.headers):  # type: ignore[arg-type]
            self.say(401, {"error": {"code": "Base.1.8.GeneralError", "message": "no session"}})
        elif path not in bmc.tree:
            self.say(404, {"error": {"code": "Base.1.8.ResourceMissingAtURI"}})
        elif bmc.slash and not self.path.endswith("/"):
            self.say(308, {}, Location=f"{path}/")
        else:
            self.say(200, bmc.tree[path])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_faulty():
            return
        bmc = self.owner
        if self.path.rstrip("/") != SESSIONS:
            self.say(404, {})
            return
        given = json.loads(body)
        if len(bmc.sessions) >= bmc.session_limit:
            self.say(503, {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.SessionLimitExceeded"}]}})
        elif (given.get("UserName"), given.get("Password")) != (USER, bmc.password):
            bmc.logins += 1
            self.say(401, {"error": {"message": f"no {given.get('Password')}"}})
        else:
            bmc.logins += 1
            name, token = str(bmc.logins), secrets.token_hex(16)
            bmc.sessions[name] = token
            place = f"{SESSIONS}/{name}"
            self.say(201, {"@odata.id": place}, X_Auth_Token=token, Location=f"https://10.0.0.1{place}")

    def do_DELETE(self) -> None:
        if self._is_faulty():
            return
        gone = self.owner.sessions.pop(self.path.rstrip("/").rsplit("/", 1)[1], None)
        self.say(404 if gone is None else 200, {})

    def say(self, status: int, content: object, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content, default=lambda made: made()).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _is_faulty(self) -> bool:
        self.owner.asked.append(Asked(self.command, self.path, dict(self.headers.items())))
        return self.owner.fault is not None and self.owner.fault(self)


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def collection(*paths: str) -> dict[str, Any]:
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


def chassis(name: str, kind: str = "RackMount", *, inside: str | None = None, **links: str) -> dict[str, Any]:
    """One chassis; `links` name resources below it."""
    place = f"/redfish/v1/Chassis/{name}"
    made: dict[str, Any] = {"@odata.id": place, "Id": name, "ChassisType": kind, "PowerState": "On", "Links": {}}
    if inside is not None:
        made["Links"]["ContainedBy"] = link(f"/redfish/v1/Chassis/{inside}")
    made.update({key: link(f"{place}/{below}") for key, below in links.items()})
    return made


def tree_of(*chassis_resources: dict[str, Any], **below: Any) -> dict[str, Any]:
    """A tree of chassis; `below` maps `Name__Power` to the resource Power of chassis Name."""
    tree: dict[str, Any] = {
        "/redfish/v1/Chassis": collection(*(item["@odata.id"] for item in chassis_resources)),
        **{item["@odata.id"]: item for item in chassis_resources},
    }
    for key, resource in below.items():
        tree["/redfish/v1/Chassis/" + key.replace("__", "/")] = resource
    return tree


def control(watts: Any, name: str | None = "System Power Control", **more: Any) -> dict[str, Any]:
    made = {"MemberId": "0", "PowerConsumedWatts": watts, "PowerCapacityWatts": 1400, **more}
    return made if name is None else {"Name": name, **made}


def simple(bmc_watts: Any) -> dict[str, Any]:
    """One chassis with the legacy Power resource."""
    return tree_of(chassis("1", Power="Power"), **{"1__Power": {"PowerControl": [control(bmc_watts)]}})


def idrac(watts: Any) -> dict[str, Any]:
    """Dell iDRAC 9: ids with dots, a disk enclosure beside the system, unsupported fields null."""
    related = [link("/redfish/v1/Chassis/System.Embedded.1"), link("/redfish/v1/Systems/System.Embedded.1")]
    power = {
        "PowerControl": [
            control(watts, MemberId="PowerControl", RelatedItem=related, PowerAvailableWatts=None, PowerLimit={})
        ],
        "PowerSupplies": [{"LastPowerOutputWatts": None, "PowerInputWatts": 160, "LineInputVoltage": 230}],
    }
    return tree_of(
        chassis("System.Embedded.1", Power="Power", EnvironmentMetrics="EnvironmentMetrics"),
        chassis("Enclosure.Internal.0-1:RAID.Integrated.1-1", "StorageEnclosure", inside="System.Embedded.1"),
        **{
            "System.Embedded.1__Power": power,
            "System.Embedded.1__EnvironmentMetrics": {"PowerWatts": {"Reading": None}},
        },
    )


def ilo(watts: Any) -> dict[str, Any]:
    """HPE iLO 5: a control without a name; to be served with slashes."""
    place = "/redfish/v1/Chassis/1/"
    power = {"PowerControl": [control(watts, None, PowerMetrics={"AverageConsumedWatts": 7})]}
    one = {**chassis("1"), "@odata.id": place, "Power": link(f"{place}Power/")}
    return {
        "/redfish/v1/Chassis": collection(place),
        "/redfish/v1/Chassis/1": one,
        "/redfish/v1/Chassis/1/Power": power,
    }


def xcc(watts: Any) -> dict[str, Any]:
    """Lenovo XCC: the server first or last among its own sub-systems, which must not be added."""
    power = {
        "PowerControl": [
            control(120, "CPU Sub-system Power", MemberId="1", PhysicalContext="CPU"),
            control(30, "Memory Sub-system Power", MemberId="2", PhysicalContext="Memory"),
            control(watts, "Server Power Control", RelatedItem=[link("/redfish/v1/Systems/1")]),
            control(40, "GPU Sub-system Power", MemberId="3"),
        ]
    }
    return tree_of(chassis("1", Power="Power", PowerSubsystem="PowerSubsystem"), **{"1__Power": power})


def supermicro(watts: Any) -> dict[str, Any]:
    """Supermicro: the node beside a storage enclosure that has a Power resource of its own, all null."""
    dead = {"PowerControl": [control(None, "System Power Control")]}
    return tree_of(
        chassis("1", Power="Power"),
        chassis("HA-RAID.0.StorageEnclosure.0", "Enclosure", Power="Power"),
        **{"1__Power": {"PowerControl": [control(watts)]}, "HA-RAID.0.StorageEnclosure.0__Power": dead},
    )


def irmc(watts: Any) -> dict[str, Any]:
    """Fujitsu iRMC S6: no PowerControl; the total and its supplies under Oem."""
    consumption = {"CurrentPowerConsumptionW": watts, "MinimumPowerW": 150, "PeakPowerW": 495, "AveragePowerW": 156}
    sensors = [{"Designation": f"PSU{n} Power", "CurrentPowerConsumptionW": 80} for n in (1, 2)]
    oem = {"ts_fujitsu": {"ChassisPowerConsumption": consumption, "ChassisPowerSensors": sensors}}
    return tree_of(chassis("0", Power="Power"), **{"0__Power": {"Oem": oem, "PowerSupplies": []}})


def paged(watts: Any) -> dict[str, Any]:
    """A list of chassis in pages of two: the node stands on the second; the last page leads back to the first."""
    cards = [chassis(f"Card_{n}", "Card") for n in range(3)]
    tree = tree_of(*cards, chassis("Self", Power="Power"), Self__Power={"PowerControl": [control(watts)]})
    paths = [item["@odata.id"] for item in tree["/redfish/v1/Chassis"]["Members"]]
    first, second = "/redfish/v1/Chassis", "/redfish/v1/Chassis?$skip=2"
    tree[first] = {**collection(*paths[:2]), "Members@odata.count": 4, "Members@odata.nextLink": second}
    tree[second] = {**collection(*paths[2:]), "Members@odata.count": 4, "Members@odata.nextLink": second}
    return tree


def openbmc(watts: Any, stamp: Any = "") -> dict[str, Any]:
    """Only the newer model: EnvironmentMetrics, with an energy counter; Power is gone."""
    metrics = {
        "PowerWatts": {"DataSourceUri": "/redfish/v1/Chassis/chassis/Sensors/power_total", "Reading": watts},
        "EnergyJoules": {"Reading": 5_000_000.25},
        "EnergykWh": {"Reading": 1.5},
    }
    metrics["PowerWatts"]["ReadingTime"] = stamp
    sensor = {"Id": "power_total", "Reading": watts, "ReadingType": "Power", "ReadingUnits": "W", "ReadingTime": stamp}
    return tree_of(
        chassis("chassis", EnvironmentMetrics="EnvironmentMetrics", Sensors="Sensors"),
        **{"chassis__EnvironmentMetrics": metrics, "chassis__Sensors/power_total": sensor},
    )


def hgx(watts: Any) -> dict[str, Any]:
    """OpenBMC of a node with eight GPUs: the node, its GPU board inside it, a card per GPU; each shows a power."""
    metrics = {"EnvironmentMetrics": "EnvironmentMetrics"}
    gpus = [chassis(f"HGX_GPU_SXM_{n}", "Module", inside="HGX_Chassis_0", **metrics) for n in range(1, 9)]
    watts_of = {f"HGX_GPU_SXM_{n}": 400.5 for n in range(1, 9)}
    watts_of |= {"HGX_Chassis_0": 3204, "Chassis_0": watts, "Rack": 40_000}
    return tree_of(
        *gpus,
        chassis("HGX_Chassis_0", inside="Chassis_0", **metrics),
        chassis("Chassis_0", **metrics),
        chassis("Rack", "Rack", **metrics),
        **{f"{name}__EnvironmentMetrics": {"PowerWatts": {"Reading": value}} for name, value in watts_of.items()},
    )


def two_boards(watts: Any) -> dict[str, Any]:
    """Two chassis side by side, each with a part of the node's power: only a site knows what to do with them."""
    return tree_of(
        chassis("Host", Power="Power"),
        chassis("GPU_Tray", Power="Power"),
        Host__Power={"PowerControl": [control(watts)]},
        GPU_Tray__Power={"PowerControl": [control(2000)]},
    )


def client_settings(secret_file: Any, **more: Any) -> DeviceClientSettings:
    """Settings of a client that knows the BMC's user; the password is in a file."""
    secret_file.write_text(PASSWORD + "\n")
    return DeviceClientSettings(username=USER, password_file=secret_file, **more)
