"""Energy of one run as the agent of this machine accounts it: it may read meters that the user may not."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwhere.core.errors import KwhereError
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.core.terms import Component, Method, Part
from kwhere.local.agent_client import AgentConnection

ORDER = tuple(Method)
"""Best first."""
ASK_SECONDS = 0.1
SLACK_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class AgentEnergy:
    """Joules per component and part of one run, and how they came about."""

    energy_joules: Mapping[tuple[Component, Part], float]
    method: Method | None


def agent_methods(socket_path: Path) -> dict[Component, Method]:
    """Return how the agent measures each component; empty where none answers."""
    with suppress(KwhereError), AgentConnection(socket_path, timeout_seconds=1.0) as agent:
        return parse_methods(agent.ask({"get": "top"}))
    return {}


def is_better(theirs: Mapping[Component, Method], ours: Method | None) -> bool:
    """Return whether the agent measures the CPUs by a better method than we do ourselves."""
    method = theirs.get(Component.CPU)
    return method is not None and (ours is None or ORDER.index(method) < ORDER.index(ours))


def ended_run(socket_path: Path, unit: str, methods: Mapping[Component, Method]) -> AgentEnergy | None:
    """Return the figures of a run that has just ended, once the agent has seen its end; None if it never knew it."""
    with suppress(KwhereError), AgentConnection(socket_path, timeout_seconds=2.0) as agent:
        interval_s = float(agent.ask({"get": "hello"})["interval_seconds"])
        deadline = time.monotonic() + 2 * interval_s + SLACK_SECONDS
        while True:
            answer = agent.ask({"get": "unit", "manager": "run", "unit": unit})
            runs = answer["runs"]
            if (runs and not runs[-1]["live"]) or time.monotonic() > deadline:
                return parse_run(runs[-1], methods) if runs else None
            time.sleep(ASK_SECONDS)
    return None


def parse_run(run: Mapping[str, Any], methods: Mapping[Component, Method]) -> AgentEnergy:
    """Return the figures of a unit as the local socket tells it."""
    joules = {
        (Component(component), Part(part)): energy_uj / MICROJOULES_PER_JOULE
        for component, parts in run["energy_uj"].items()
        for part, energy_uj in parts.items()
        if energy_uj is not None
    }
    sums: dict[Component, float] = {}
    for (component, _), value in joules.items():
        sums[component] = sums.get(component, 0.0) + value
    largest = max(sums, key=lambda component: sums[component], default=None)
    return AgentEnergy(joules, methods.get(largest) if largest is not None else None)


def parse_methods(answer: Mapping[str, Any]) -> dict[Component, Method]:
    """Return the method of each component from an answer of the local socket."""
    return {Component(component): Method(found["method"]) for component, found in (answer.get("methods") or {}).items()}
