"""Energy of one run, measured by the command itself: a sampler of one unit over whatever may be read here."""

import threading
from collections.abc import Mapping

import structlog

from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.core.terms import Component, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.sampling.step import Sampler

log = structlog.get_logger(__name__)


class OwnEnergy:
    """Steps a sampler from a thread until the run ends. `start` before the command, `finish` after it."""

    def __init__(self, sampler: Sampler, key: UnitKey, interval_seconds: float) -> None:
        self._sampler = sampler
        self._key = key
        self._interval_s = interval_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run sampler", daemon=True)

    def baseline(self) -> None:
        """Take first readings; to be called before the command is forked."""
        self._sampler.step()

    def start(self) -> None:
        """Step each interval from now on; to be called after the fork."""
        self._thread.start()

    def finish(self) -> None:
        """Take last readings and release the meters."""
        self._over.set()
        self._thread.join()
        self._sampler.step()
        self._sampler.parts.bank.close()

    def energy_joules(self) -> dict[tuple[Component, Part], float]:
        """Return joules per component and part; a component that nothing measures is absent."""
        totals = self._sampler.parts.board.snapshot()
        rows: Mapping[tuple[Component, Part], int] = {}
        for unit in totals.units if totals else ():
            if unit.key == self._key:
                rows = unit.energy_uj
        return {place: energy_uj / MICROJOULES_PER_JOULE for place, energy_uj in rows.items()}

    def method(self) -> Method | None:
        """Return the method of the component that took the most; None where nothing measures."""
        totals = self._sampler.parts.board.snapshot()
        energy = self.energy_joules()
        if totals is None or not energy:
            return None
        sums = {c: sum(j for (component, _), j in energy.items() if component == c) for c, _ in energy}
        largest = max(sums, key=lambda component: sums[component])
        return totals.methods[largest][0] if largest in totals.methods else None

    def _run(self) -> None:
        while not self._over.wait(self._interval_s):
            try:
                self._sampler.step()
            except Exception:  # the runner of this loop: the command must not suffer
                log.exception("step failed")
