"""Where a BMC shows the power of its node: chassis by name, or the one that a BMC's own words make out."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.devices.json_answer import JsonValue, elements, member, text
from kwhere.devices.redfish_client import ROOT, RedfishClient
from kwhere.devices.redfish_power import (
    PowerFigure,
    energy_of_environment,
    power_of_environment,
    power_of_power,
    power_of_sensor,
)
from kwhere.devices.redfish_words import PowerResource

MAX_CHASSIS = 256
_SEGMENT = r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+"
_CHASSIS = re.compile(rf"{ROOT}/Chassis/({_SEGMENT})/?")
_BELOW_CHASSIS = re.compile(rf"{ROOT}/Chassis/(?!\.\.?/){_SEGMENT}(?:/(?!\.\.?(?:/|$)){_SEGMENT}){{1,2}}/?")
_NEXT_PAGE = re.compile(rf"{ROOT}/Chassis/?\?[A-Za-z0-9$&=%._~+-]{{1,200}}")
_SYSTEM = re.compile(rf"{ROOT}/Systems/{_SEGMENT}/?")
_MORE_THAN_A_NODE = frozenset(
    {
        "Drawer", "Enclosure", "Facility", "HeatExchanger", "ImmersionTank", "Pod", "PowerStrip", "Rack", "RackGroup",
        "Row", "Shelf", "Sidecar", "StorageEnclosure", "Zone",
    }
)  # fmt: skip
_PART_OF_A_NODE = frozenset({"Card", "Cartridge", "Component", "Expansion", "IPBasedDrive", "Module"})
_ELSEWHERE = frozenset({"absent", "unsupported", "not_found"})
"""Reasons for which another resource is looked at."""


@dataclass(frozen=True, slots=True)
class PowerChoice:
    """What a site says of its BMCs; nothing: it is made out."""

    chassis: tuple[str, ...] = ()
    """Ids of chassis whose powers are summed."""
    resource: PowerResource | None = None
    power_control: str | None = None
    sensor: str | None = None


@dataclass(frozen=True, slots=True)
class PowerPlace:
    """One chassis and the resource that shows its power."""

    chassis: str
    resource: PowerResource
    path: str


class PowerFinder:
    """Finds the places once. A BMC with dozens of chassis may need several questions: what is known is kept."""

    def __init__(self, client: RedfishClient, choice: PowerChoice) -> None:
        self._client = client
        self._choice = choice
        self._resources: dict[str, Mapping[str, JsonValue]] = {}
        self._found: dict[str, PowerPlace | Unavailable] = {}

    def find(self) -> tuple[PowerPlace, ...]:
        """Return the places whose powers add up to the node's.

        Raises NoData where there was no time for all of it, Unavailable (unsupported, ambiguous, absent, …).
        """
        known = len(self._resources) + len(self._found)
        try:
            places = self._named() if self._choice.chassis else (self._the_one(),)
        except Unavailable as error:
            if error.reason == "timeout" and len(self._resources) + len(self._found) > known:
                raise NoData(f"{ROOT}/Chassis: {len(self._resources)} resources known, more to come") from error
            if error.reason != "timeout":
                self.forget()
            raise
        self.forget()
        return places

    def forget(self) -> None:
        """Begin anew."""
        self._resources.clear()
        self._found.clear()

    def read(self, place: PowerPlace) -> PowerFigure:
        """Return what a place shows now. Raises Unavailable, SourceError."""
        resource = self._client.get(place.path)
        match place.resource:
            case PowerResource.POWER:
                return power_of_power(resource, self._choice.power_control, place.path)
            case PowerResource.ENVIRONMENT:
                return power_of_environment(resource, place.path)
            case PowerResource.ENERGY:
                return energy_of_environment(resource, place.path)
            case PowerResource.SENSOR:
                return power_of_sensor(resource, place.path)

    def _named(self) -> tuple[PowerPlace, ...]:
        places = []
        for chassis in self._choice.chassis:
            place = self._probe(f"{ROOT}/Chassis/{chassis}")
            if isinstance(place, Unavailable):
                raise place
            places.append(place)
        return tuple(places)

    def _the_one(self) -> PowerPlace:
        """Return the place of the chassis that holds the node: not a rack, not a card, not one inside another."""
        paths = self._chassis_paths()
        nodes = [path for path in paths if self._may_be_a_node(path)] if len(paths) > 1 else paths
        probed = {path: self._probe(path) for path in nodes}
        places = {path: place for path, place in probed.items() if isinstance(place, PowerPlace)}
        failures = {path: place for path, place in probed.items() if isinstance(place, Unavailable)}
        if not places:
            raise self._why_none(paths, list(failures.values()))
        self._check_silent(failures, places)
        outer = [path for path in places if not self._lies_in(path, places.keys())] or list(places)
        if len(outer) > 1:
            outer = [path for path in outer if path in self._chassis_of_systems()] or outer
        if len(outer) > 1:
            raise self._ambiguous(outer)
        return places[outer[0]]

    def _may_be_a_node(self, path: str) -> bool:
        """Return whether a chassis is neither a rack nor a card; one that cannot be read hides no other."""
        try:
            kind = text(self._get(path).get("ChassisType"))
        except SourceError:
            return False
        except Unavailable as error:
            if error.reason in ("not_found", "permission", "server_error"):
                return False
            raise
        return kind not in _MORE_THAN_A_NODE | _PART_OF_A_NODE

    def _check_silent(self, failures: Mapping[str, Unavailable], places: Collection[str]) -> None:
        """Raise the failure of the system's own chassis: while that says nothing, no other one stands for it."""
        silent = [path for path, failure in failures.items() if failure.reason == "absent"]
        if silent:
            named = self._chassis_of_systems()
            if not named.isdisjoint(silent) and named.isdisjoint(places):
                raise next(failures[path] for path in silent if path in named)

    def _why_none(self, paths: list[str], failures: list[Unavailable]) -> Unavailable:
        """Return the failure that says most: of the nodes looked at, else that only racks or cards were found."""
        telling = [failure for failure in failures if failure.reason != "unsupported"] or failures
        if telling:
            return telling[0]
        return self._ambiguous(paths) if paths else Unavailable("unsupported", f"{ROOT}/Chassis: found no chassis")

    def _ambiguous(self, paths: list[str]) -> Unavailable:
        names = ", ".join(path.rsplit("/", 1)[1] for path in paths[:12])
        return Unavailable(
            "ambiguous", f"{ROOT}/Chassis: expected one chassis that is the node; name those to sum: {names}"
        )

    def _chassis_paths(self) -> list[str]:
        """Return the paths of all chassis; a long list comes in pages."""
        paths: dict[str, None] = {}
        page, seen = f"{ROOT}/Chassis", set[str]()
        while page not in seen and len(paths) < MAX_CHASSIS:
            seen.add(page)
            listed = self._get(page)
            found = [text(member(link, "@odata.id")) for link in elements(listed.get("Members"))]
            paths |= dict.fromkeys(path.rstrip("/") for path in found if _CHASSIS.fullmatch(path))
            following = text(listed.get("Members@odata.nextLink"))
            page = following if _NEXT_PAGE.fullmatch(following) else page
        return list(paths)[:MAX_CHASSIS]

    def _lies_in(self, path: str, others: Collection[str]) -> bool:
        """Return whether a chassis with power holds this one; its power then has this one's inside."""
        seen = {path}
        while True:
            path = text(member(self._get(path), "Links", "ContainedBy", "@odata.id")).rstrip("/")
            if path in seen or not _CHASSIS.fullmatch(path):
                return False
            if path in others:
                return True
            seen.add(path)

    def _chassis_of_systems(self) -> set[str]:
        """Return the chassis that a ComputerSystem says it sits in; none where that may not be asked."""
        try:
            found: set[str] = set()
            for system in elements(self._get(f"{ROOT}/Systems").get("Members")):
                path = text(member(system, "@odata.id"))
                if _SYSTEM.fullmatch(path):
                    chassis = elements(member(self._get(path), "Links", "Chassis"))
                    found |= {text(member(link, "@odata.id")).rstrip("/") for link in chassis}
        except Unavailable as error:
            if error.reason in ("not_found", "permission"):
                return set()
            raise
        return found

    def _probe(self, path: str) -> PowerPlace | Unavailable:
        if path not in self._found:
            self._found[path] = self._probed(path)
        return self._found[path]

    def _probed(self, path: str) -> PowerPlace | Unavailable:
        """Return the first resource of a chassis that shows power now, or why none does."""
        failures: list[Unavailable] = []
        for place in self._places_of(path):
            try:
                self.read(place)
            except Unavailable as error:
                if error.reason not in _ELSEWHERE | {"ambiguous"}:
                    raise
                failures.append(error)
            else:
                return place
        telling = [failure for failure in failures if failure.reason not in ("unsupported", "not_found")]
        return (telling or failures or [Unavailable("unsupported", f"{path}: shows no power")])[0]

    def _places_of(self, path: str) -> list[PowerPlace]:
        chassis, name = self._get(path), path.rsplit("/", 1)[1]
        environment = text(member(chassis, "EnvironmentMetrics", "@odata.id"))
        linked = {
            PowerResource.POWER: text(member(chassis, "Power", "@odata.id")),
            PowerResource.ENVIRONMENT: environment,
            PowerResource.ENERGY: environment,
            PowerResource.SENSOR: f"{path}/Sensors/{self._choice.sensor}",
        }
        wanted = [self._choice.resource] if self._choice.resource else [PowerResource.POWER, PowerResource.ENVIRONMENT]
        places = [PowerPlace(name, resource, linked[resource]) for resource in wanted]
        return [place for place in places if _BELOW_CHASSIS.fullmatch(place.path)]

    def _get(self, path: str) -> Mapping[str, JsonValue]:
        if path not in self._resources:
            self._resources[path] = self._client.get(path)
        return self._resources[path]


class RedfishBmc:
    """The power of one node by its BMC. Not thread-safe."""

    def __init__(self, client: RedfishClient, choice: PowerChoice) -> None:
        self._client = client
        self._finder = PowerFinder(client, choice)
        self._places: tuple[PowerPlace, ...] = ()

    def read(self, budget_seconds: float) -> Mapping[str, PowerFigure]:
        """Return what each chassis shows, all of them or an error. Raises NoData, Unavailable, SourceError."""
        self._client.begin(budget_seconds)
        known = self._places
        self._places = known or self._finder.find()
        try:
            return self._figures()
        except Unavailable as error:
            self._places = () if error.reason == "not_found" else self._places
            if error.reason != "not_found" or not known:
                raise
        # a BMC that was restarted or updated may list other chassis
        self._places = self._finder.find()
        return self._figures()

    def close(self) -> None:
        """End the session and give back the connections."""
        self._client.close()

    def _figures(self) -> Mapping[str, PowerFigure]:
        return {place.chassis: self._finder.read(place) for place in self._places}
