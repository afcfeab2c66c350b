"""SIGHUP at a server: the configuration is read again; a wrong one is told and the old one stays in force."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Generic, Protocol, TypeVar

import structlog

from kwhere.core.errors import ConfigError

InForceT = TypeVar("InForceT")

log = structlog.get_logger(__name__)


class Stoppable(Protocol):
    """What serves until it is told to end."""

    should_exit: bool


@dataclass(slots=True)
class Renewal(Generic[InForceT]):
    """A signal handler. `found` is what is to be in force next; None: the server ended for good."""

    in_force: InForceT
    read_again: Callable[[], InForceT] | None
    """Raises ConfigError. None: the configuration does not change while we run."""
    found: InForceT | None = None
    serving: Stoppable | None = field(default=None, repr=False)
    """Told to end when there is another configuration."""

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Read the configuration; if it is right and another one, end what serves under the old one."""
        if self.read_again is None:
            return
        try:
            now = self.read_again()
        except ConfigError as error:
            log.error("configuration is wrong, the old one stays in force", error=str(error))
            return
        if now == self.in_force:
            return
        self.found = now
        if self.serving is not None:
            self.serving.should_exit = True
