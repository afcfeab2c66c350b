"""Agents asked as a server would, through answers given by hand."""

import pytest

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_targets import Target, check_target, check_targets
from kwhere.transport.http import Answer

N1 = Target("n1:9810", "https://n1:9810")
NOW_NS = 1_764_000_000_000_000_000
UP = (
    'kwhere_energy_source_up{source="powercap",reason=""} 1\nkwhere_energy_source_up{source="psys",reason="absent"} 0\n'
)
UP += 'kwhere_energy_method_info{component="cpu",method="counter",source="powercap"} 1\n'
CLOSED = 'kwhere_energy_source_up{reason="permission",source="powercap"} 0\n'


class Agent:
    """What each path answers: status, body, clock offset in seconds."""

    def __init__(self, *, health: int = 200, metrics: str = UP, ledger: int = 200, offset: float = 0.0) -> None:
        self._answers = {
            "/healthz": Answer(health, {}, b"sampler ended", 0.0),
            "/metrics": Answer(200, {}, metrics.encode(), 0.0),
            "/ledger?limit=1": Answer(ledger, {"x-clock-utc-ns": str(NOW_NS + int(offset * 1e9))}, b"", 0.0),
        }

    def __call__(self, url: str, path: str) -> Answer:
        assert url == "https://n1:9810"
        return self._answers[path]


@pytest.mark.parametrize(
    ("agent", "state", "says"),
    [
        (Agent(), CheckState.OK, ""),
        (Agent(offset=1.5), CheckState.OK, ""),
        (Agent(offset=-7.0), CheckState.WARNING, "off by -7.0 s"),
        (Agent(health=503), CheckState.WARNING, "status 503): sampler ended"),
        (Agent(metrics=CLOSED), CheckState.WARNING, "Not read there: powercap"),
        (Agent(ledger=401), CheckState.FAILED, "--token-file"),
        (Agent(ledger=503), CheckState.WARNING, "/ledger answers status 503"),
    ],
)
def test_what_an_agent_answers(agent: Agent, state: CheckState, says: str) -> None:
    check = check_target(N1, agent, lambda: NOW_NS)

    assert check.name == "n1:9810"
    assert check.state is state
    assert says in check.why


@pytest.mark.parametrize("error", [Unavailable("refused", "n1: refused"), ConfigError("token: no plain HTTP")])
def test_an_agent_that_cannot_be_asked(error: Exception) -> None:
    def ask(url: str, path: str) -> Answer:
        raise error

    check = check_target(N1, ask, lambda: NOW_NS)

    assert check.state is CheckState.FAILED
    assert str(error) in check.why


def test_how_its_energy_is_measured() -> None:
    measured = check_target(N1, Agent(), lambda: NOW_NS)
    without = check_target(N1, Agent(metrics=""), lambda: NOW_NS)

    assert measured.found == "answers, ledger open; cpu by counter"
    assert without.found == "answers, ledger open; nothing speaks for its energy"


def test_targets_keep_the_order_of_the_file() -> None:
    targets = [Target(f"n{number}", "https://n1:9810") for number in range(40)]

    assert [check.name for check in check_targets(targets, Agent(), lambda: NOW_NS)] == [t.address for t in targets]
