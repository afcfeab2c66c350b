"""Puts `kwhere top` together: the agent that runs here, else one of its own in this process."""

import os
from datetime import datetime
from pathlib import Path

import structlog

from kwhere.agent.local_view import Viewer, top_view
from kwhere.apps.agent import BuiltAgent, build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.core.errors import KwhereError, NoData
from kwhere.local.agent_client import SOCKET_NAME
from kwhere.local.top import AgentFeed, Top, TopFeed
from kwhere.local.top_sample import TopSample, parse_sample

GPU_STEPS = 2
"""Who holds a GPU is known after the first step, what it did there after the second."""


class OwnFeed:
    """An agent in this process, without journal: it sees what we may read, and forgets it at the end."""

    source = "own measurement"

    def __init__(self, built: BuiltAgent, step_seconds: float) -> None:
        self._built = built
        self._viewer = Viewer(os.geteuid(), sees_all=True)
        self.node = built.identity.node
        self.step_seconds = step_seconds
        built.agent.start()

    def look(self) -> TopSample:
        """Return the totals after the last step. Raises NoData before the first."""
        totals = self._built.agent.totals()
        if totals is None:
            raise NoData("no step was done yet")
        if self._built.gpus and totals.counts.steps < GPU_STEPS:
            raise NoData("what the GPUs did was not read twice yet")
        return parse_sample(top_view(totals, self._viewer))

    def close(self) -> None:
        """Stop sampling."""
        self._built.agent.stop()


def open_feed(config: AgentConfig, state_dir: Path, *, own: bool = False) -> TopFeed:
    """Return the feed of the agent of `state_dir`; without one, or with `own`, measure in this process."""
    if not own:
        try:
            return AgentFeed(state_dir / SOCKET_NAME)
        except KwhereError:
            pass  # no agent, or one that will not answer us: we measure what we may
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # a line of log would tear the screen
    return OwnFeed(build_agent(config, None), config.agent.interval_seconds)


def build_top(feed: TopFeed, interval_seconds: float) -> Top:
    """Return the view of a feed."""
    return Top(feed, interval_seconds, lambda: datetime.now().astimezone())
