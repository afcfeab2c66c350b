"""IPMI DCMI: power of the whole node as its BMC measures it, by the kernel's driver or by a program."""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from kwhere.core.errors import KwhereError, NoData, SourceError, Unavailable
from kwhere.core.terms import Component
from kwhere.devices.dcmi import (
    CMD_POWER_READING,
    NETFN_GROUP,
    POWER_REQUEST,
    PowerReading,
    believed_uw,
    parse_power_reading,
)
from kwhere.devices.dcmi_programs import Program, ask_program, find_program
from kwhere.devices.openipmi import Command, KernelCalls, SystemCalls, ask_device, check_device
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.ipmi import find_interfaces, has_bmc
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.ipmi_dcmi_settings import PROGRAMS, IpmiDcmiSettings, Way
from kwhere.meters.meter import PLATFORM, MeterContext, Plugin, Reading
from kwhere.meters.node_url import node_url

SOURCE = "ipmi_dcmi"
UNSUPPORTED_RETRY_SECONDS = 3600.0
"""A BMC without DCMI learns it by a firmware update at best."""
UNAUTHORIZED_RETRY_SECONDS = 300.0
"""Accounts lock after a few wrong passwords in a row."""
BUSY_IN_ROW = 3
"""So often a BMC may be busy before that is a failure."""
STUCK_SECONDS = 60.0
_LONGEST_PERIOD_SECONDS = 60.0
_WORDS_OF_THE_BMC = ("unsupported", "inactive", "busy")
_QUESTION = Command(NETFN_GROUP, CMD_POWER_READING, POWER_REQUEST)
_AUTO_PROGRAMS = (Way.FREEIPMI, Way.IPMITOOL, Way.IPMIUTIL)  # not capmc: it tells the power of a whole Cray system
_DEVICES = ("ipmi", "ipmi/", "ipmidev/")


@dataclass(frozen=True, slots=True)
class Place:
    """What of the running machine a BMC is asked through."""

    directory: Path = Path("/dev")
    calls: SystemCalls = field(default_factory=KernelCalls)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    hostname: Callable[[], str] = socket.gethostname
    find: Callable[[str], str | None] = lambda name: find_program(name, os.environ.get("PATH", os.defpath))
    """Where a program lies, None where it is not installed."""


@dataclass(frozen=True, slots=True)
class DcmiWay:
    """One way to ask, and whether a refusal by it is the BMC's own word."""

    name: Way
    ask: Callable[[], PowerReading]

    @property
    def is_final(self) -> bool:
        """Return whether another way can do no better once this one brought the BMC's refusal."""
        return self.name is Way.NATIVE


class DcmiSource(BlockingSource):
    """Asks by the first way that works, and by that one from then on."""

    def __init__(self, ways: Sequence[DcmiWay], watch: "StampWatch") -> None:
        self._ways = list(ways)
        self._watch = watch
        self._has_dcmi = False
        self._busy = 0
        self._closed = False

    def ask(self) -> Sequence[Reading]:
        """Return the power now. Raises Unavailable, SourceError; NoData while the BMC is busy for a moment."""
        failures: list[Unavailable | SourceError] = []
        for way in self._ways:
            if self._closed:
                raise NoData(f"{SOURCE}: closed")
            try:
                return [self._reading(way)]
            except (Unavailable, SourceError) as error:
                failures.append(error)
                if way.is_final and isinstance(error, Unavailable) and error.reason in _WORDS_OF_THE_BMC:
                    break
        raise self._judged(failures[0])

    def close(self) -> None:
        """Ask no other way after the one under way, which ends by its time-out at the latest."""
        self._closed = True

    def _reading(self, way: DcmiWay) -> Reading:
        reading = way.ask()
        self._has_dcmi = True
        power_uw = believed_uw(reading, way.name.value)
        self._watch.check(reading)
        self._ways, self._busy = [way], 0
        return Reading(PLATFORM, "system", 0, power_uw=power_uw)

    def _judged(self, error: Unavailable | SourceError) -> KwhereError:
        if isinstance(error, SourceError):
            return error
        if error.reason == "busy" and self._busy < BUSY_IN_ROW:
            self._busy += 1
            return NoData(str(error))
        retry_after_seconds = None
        if error.reason == "unsupported" and not self._has_dcmi:
            retry_after_seconds = UNSUPPORTED_RETRY_SECONDS
        elif error.reason == "unauthorized":
            retry_after_seconds = UNAUTHORIZED_RETRY_SECONDS
        return Unavailable(error.reason, str(error), retry_after_seconds=retry_after_seconds)


class StampWatch:
    """Tells a BMC that answers without measuring: its time stamp, which did move, stands still, and so does the power.

    A stamp that never moved says nothing: many BMCs leave it 0.
    """

    def __init__(self, refresh_seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._patience_seconds = max(STUCK_SECONDS, 3 * refresh_seconds)
        self._clock = clock
        self._last: tuple[str | None, int | None] | None = None
        self._since = 0.0
        self._moves = False

    def check(self, reading: PowerReading) -> None:
        """Take in a reading. Raises Unavailable (stuck) where nothing of it has moved for too long."""
        now, seen = self._clock(), (reading.stamp, reading.current_uw)
        if self._last is None or seen != self._last:
            self._moves = self._moves or (self._last is not None and seen[0] != self._last[0])
            self._last, self._since = seen, now
            return
        period_seconds = min((reading.period_ms or 0) / 1000, _LONGEST_PERIOD_SECONDS)
        if self._moves and now - self._since > max(self._patience_seconds, 3 * period_seconds):
            raise Unavailable("stuck", f"{SOURCE}: the BMC's time stamp has not moved for {now - self._since:.0f} s")


def build(context: MeterContext) -> BackgroundMeter:
    """Return the meter, nothing asked yet. Raises Unavailable: absent, no_driver, no_device, permission, no_program."""
    return build_at(context, Place())


def build_at(context: MeterContext, place: Place) -> BackgroundMeter:
    """Return the meter over the BMC of `place`. Raises Unavailable."""
    settings = context.settings.ipmi_dcmi
    if context.fs.is_recorded:
        raise _recorded(context.fs)
    ways = _ways(context.fs, settings, context.node or place.hostname(), place)
    facts = SlowFacts(
        source=SOURCE,
        domains=(PLATFORM,),
        covers=frozenset(Component) - (frozenset() if settings.includes_gpus else {Component.GPU}),
        refresh_seconds=settings.refresh_seconds,
        give_up_seconds=len(ways) * settings.timeout_seconds + 1,
        p_max_uw=context.settings.platform_headroom_uw,
    )
    source = DcmiSource(ways, StampWatch(settings.refresh_seconds))
    return BackgroundMeter(facts, source, context.clock_ns)


def find_device(directory: Path) -> Path | None:
    """Return the first device of the kernel's IPMI driver below /dev, the lowest number first; None: none."""
    for prefix in _DEVICES:
        parent, _, stem = prefix.rpartition("/")
        place = directory / parent
        try:
            names = os.listdir(place)
        except OSError:
            continue
        numbers = [int(found[1]) for name in names if (found := re.fullmatch(rf"{stem}(\d{{1,5}})", name, re.ASCII))]
        if numbers:
            return place / f"{stem}{min(numbers)}"
    return None


def _ways(fs: HostFS, settings: IpmiDcmiSettings, node: str, place: Place) -> list[DcmiWay]:
    """Return the ways to ask, the best first. Raises Unavailable where there is none."""
    device = settings.device or find_device(place.directory)
    named = PROGRAMS.get(settings.way)
    if named is not None:
        return [_named_way(named, settings, device, node, place)]
    if device is None:
        raise _no_device(fs)
    check_device(str(device), place.calls)
    ways = [DcmiWay(Way.NATIVE, lambda: _ask_native(str(device), settings.timeout_seconds, place.calls))]
    if settings.way is Way.AUTO:
        for way in _AUTO_PROGRAMS:
            path = place.find(PROGRAMS[way].executable)
            if path is not None:
                ways.append(_way(way, PROGRAMS[way].argv([path], PROGRAMS[way].local), settings, {}))
    return ways


def _named_way(program: Program, settings: IpmiDcmiSettings, device: Path | None, node: str, place: Place) -> DcmiWay:
    """Return the way that the settings name. Raises Unavailable where its program is not installed."""
    command = settings.command or (program.executable,)
    path = place.find(command[0])
    if path is None:
        package = f"; Debian's package is {program.package}" if program.package else ""
        raise Unavailable("no_program", f"meters.ipmi_dcmi: expected the program {command[0]}, found none{package}")
    arguments = [node_url(argument, settings.node_name, node) for argument in settings.arguments]
    if not arguments and device is not None:
        arguments = list(program.local)
    environment = {name: place.environment[name] for name in settings.environment if name in place.environment}
    return _way(settings.way, program.argv((path, *command[1:]), arguments), settings, environment)


def _way(name: Way, argv: Sequence[str], settings: IpmiDcmiSettings, environment: Mapping[str, str]) -> DcmiWay:
    return DcmiWay(name, lambda: ask_program(PROGRAMS[name], argv, settings.timeout_seconds, environment))


def _ask_native(device: str, timeout_seconds: float, calls: SystemCalls) -> PowerReading:
    return parse_power_reading(ask_device(device, _QUESTION, timeout_seconds, calls), device)


def _recorded(fs: HostFS) -> Unavailable:
    if find_interfaces(fs):
        return Unavailable("recorded", f"{SOURCE}: a copied tree shows a BMC; nothing is asked there")
    return _no_device(fs)


def _no_device(fs: HostFS) -> Unavailable:
    """Return why there is no /dev/ipmiN: the machine's, the kernel's or the container's doing."""
    interfaces = find_interfaces(fs)
    if interfaces:
        return Unavailable("no_device", f"/dev/{interfaces[0]}: the kernel has it, this place (a container?) does not")
    if has_bmc(fs):
        return Unavailable(
            "no_driver", "/dev/ipmi0: the board has a BMC; the kernel's driver ipmi_devintf is not loaded"
        )
    return Unavailable("absent", "/dev/ipmi0: expected the device of a BMC, found none")


plugin = Plugin(SOURCE, build)
