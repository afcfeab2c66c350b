"""`kwhere top`: looks at running totals over and over, on a screen or as a table printed once."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rich.text import Text

from kwhere.core.errors import KwhereError, NoData, NotPermitted, Unavailable
from kwhere.local.agent_client import AgentConnection
from kwhere.local.top_choice import Choice
from kwhere.local.top_history import History
from kwhere.local.top_sample import TopSample, parse_sample
from kwhere.local.top_screen import TopScreen
from kwhere.local.top_text import TopHead, render

FIRST_LOOK_SECONDS = 10.0
_POLL_SECONDS = 0.1


class TopFeed(Protocol):
    """Where looks come from."""

    node: str
    source: str
    """How it is called on the screen."""
    step_seconds: float
    """How often totals move."""

    def look(self) -> TopSample:
        """Return the totals after the last step. Raises NoData before the first, Unavailable, SourceError."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class AgentFeed:
    """The agent that runs on this machine, asked through its socket."""

    source = "agent"

    def __init__(self, socket_path: Path) -> None:
        """Connect. Raises Unavailable where no agent answers."""
        self._path = socket_path
        self._connection = AgentConnection(socket_path)
        try:
            hello = self._connection.ask({"get": "hello"})
        except KwhereError:
            self._connection.close()
            raise
        self.node = str(hello.get("node"))
        self.step_seconds = float(hello.get("interval_seconds") or 1.0)

    def look(self) -> TopSample:
        """Return the agent's totals; one that was restarted meanwhile is asked anew."""
        try:
            return parse_sample(self._ask())
        except NotPermitted as error:
            raise NoData(str(error)) from error

    def _ask(self) -> dict[str, Any]:
        try:
            return self._connection.ask({"get": "top"})
        except Unavailable:
            self._connection.close()
            self._connection = AgentConnection(self._path)
            return self._connection.ask({"get": "top"})

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class Top:
    """Figures of one feed, and the two ways to show them."""

    def __init__(self, feed: TopFeed, interval_seconds: float, now: Callable[[], datetime]) -> None:
        self._feed = feed
        self._interval_seconds = max(interval_seconds, feed.step_seconds)
        self._history = History(max(5.0, 2 * self._interval_seconds))
        self._now = now
        self._why_not = ""

    def look(self) -> bool:
        """Take one look; return whether there was something to see. What was seen before stays."""
        try:
            self._history.add(self._feed.look())
        except (NoData, Unavailable) as error:
            self._why_not = str(error)
            return False
        self._why_not = ""
        return True

    def lines(self, choice: Choice, width: int, height: int | None) -> Sequence[Text]:
        """Return what to show."""
        view = self._history.view()
        head = TopHead(self._feed.node, self._now().strftime("%H:%M:%S"), self._feed.source, self._why_not)
        if view is None:
            return [Text(f"measuring … {self._why_not}"[:width])]
        return render(view, choice, head, width, height)

    def tables(self, times: int, width: int) -> Iterator[Text]:
        """Yield the lines of a table after each of `times` intervals."""
        self._first_look()
        for number in range(times):
            time.sleep(self._interval_seconds)
            self.look()
            if number:
                yield Text("")
            yield from self.lines(Choice(), width, None)

    def show(self, keyboard: int, times: int | None) -> None:
        """Show the live view in the terminal until the viewer quits."""
        TopScreen(self.lines, self.look, self._interval_seconds).show(keyboard, times)

    def _first_look(self) -> None:
        until = time.monotonic() + FIRST_LOOK_SECONDS
        while not self.look():
            if time.monotonic() > until:
                raise NoData(f"nothing to see within {FIRST_LOOK_SECONDS:.0f} s: {self._why_not}")
            time.sleep(_POLL_SECONDS)
