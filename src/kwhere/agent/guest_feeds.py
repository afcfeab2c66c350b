"""Tells each guest its own entry every ten seconds: written down first, then said by every way that is set."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from kwhere.agent.guest_choice import named_units
from kwhere.agent.guest_files import remove_file, uid_of, write_file
from kwhere.agent.guest_settings import GuestSettings
from kwhere.agent.guest_shown import GuestMoment, ShownGuest, ShownGuests, parse_shown
from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.unit import UnitKey
from kwhere.discovery.libvirt import MANAGER
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.meters.guest_entry import PUBLISH_SECONDS, GuestEntry, encode_entry
from kwhere.sampling.guest_book import GuestBook
from kwhere.sampling.step import Sampler

STATE_NAME = "guests.json"
_STOP_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """What guests may be told until the next time, by unit."""

    units: Mapping[str, TrackedUnit] = field(default_factory=dict)
    entries: Mapping[str, bytes] = field(default_factory=dict)


class GuestFeeds:
    """Runs from `start` to `stop` in a thread of its own. A way that fails never keeps another from being told."""

    interval_seconds: float = PUBLISH_SECONDS
    """No setting: only tests tell guests more often."""

    def __init__(self, settings: GuestSettings, host: str, sampler: Sampler, book: GuestBook, state_dir: Path) -> None:
        """Raises ConfigError: an owner who is no user here."""
        self._settings = settings
        self._sampler = sampler
        self._book = book
        self._state = state_dir / STATE_NAME
        self._clock: Clock = sampler.parts.clock
        self._owner = uid_of(settings.owner, "agent.guests.owner")
        self._owners = {key: uid_of(vm.owner, f"agent.guests.vms.{key}.owner") for key, vm in settings.vms.items()}
        self._failures = FailureMemory()
        self._shown = ShownGuests(host, self._read_state())
        self._directories: set[Path] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.told = Told()

    def start(self) -> None:
        """Begin to tell."""
        self._thread = threading.Thread(target=self._run, name="guest feeds", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; guests keep what they were told last."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def publish(self) -> None:
        """Tell every guest once. What cannot be written down is not told: it could not be gone on from."""
        moment = self._moment()
        if moment is None:
            return
        entries = self._shown.advance(moment, self._book.renew)
        try:
            _replace(self._state, self._shown.to_json().encode())
        except OSError as error:
            self._failed("state", f"{self._state}: {error.strerror or error}")
            return
        self._recovered("state")
        units = {guest.unit.key.unit: guest.unit for guest in moment.guests}
        self.told = Told(units, {key.unit: encode_entry(entry) for key, entry in entries.items()})
        self._write_files(list(units.values()), entries)

    def _moment(self) -> GuestMoment | None:
        sampler, board = self._sampler, self._sampler.parts.board
        with board.lock:
            if not sampler.steps:  # accounts are empty still: guests that are carried on would seem to be gone
                return None
            node_uj = dict(sampler.control.totals_uj())
            guests = self._book.now(sampler.accounts)
        return GuestMoment(guests, node_uj, self._clock.monotonic_ns(), self._clock.utc_ns())

    def _write_files(self, units: Sequence[TrackedUnit], entries: Mapping[UnitKey, GuestEntry]) -> None:
        wanted: dict[Path, tuple[TrackedUnit, int | None]] = {}
        if self._settings.directory is not None:
            for unit in units:
                if unit.key.manager == MANAGER and not unit.key.unit.startswith("."):
                    wanted[self._settings.directory / unit.key.unit] = (unit, self._owner)
        for key, unit in named_units(self._settings, units).items():
            directory, owner = self._settings.vms[key].directory, self._owners[key]
            if directory is not None:
                wanted[directory] = (unit, self._owner if owner is None else owner)
        for directory, (unit, uid) in wanted.items():
            self._try(directory, partial(write_file, directory, encode_entry(entries[unit.key]), uid))
        for directory in self._directories - wanted.keys():
            self._try(directory, partial(remove_file, directory))
        self._directories = set(wanted)

    def _try(self, directory: Path, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._failed(str(directory), f"{directory}: {error.strerror or error}")
        else:
            self._recovered(str(directory))

    def _read_state(self) -> dict[UnitKey, ShownGuest]:
        try:
            return parse_shown(self._state.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, SourceError) as error:
            log.error("what guests were told last is not known; their feeds begin anew", error=str(error))
            return {}

    def _run(self) -> None:
        while not self._stop.is_set():
            self.publish()
            self._stop.wait(self.interval_seconds)

    def _failed(self, subject: str, text: str) -> None:
        times = self._failures.failed(subject, text, self._clock.monotonic_ns())
        if times is not None:
            log.error("guest cannot be told its energy", error=text, times=times)

    def _recovered(self, subject: str) -> None:
        if self._failures.recovered(subject):
            log.info("guest is told its energy again", place=subject)


def _replace(path: Path, data: bytes) -> None:
    """Write a file as a whole. Only a crash of the machine could lose it, and then the guests are gone too."""
    beside = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    beside.replace(path)
