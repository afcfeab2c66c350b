"""How managers are found and built."""

from typing import Any

import pytest
from tests.account_site import HandClock

from kwhere.core.errors import ConfigError
from kwhere.core.managed import Accounts
from kwhere.resource_managers.plugin import ManagerPlugin, ManagerSettings
from kwhere.resource_managers.registry import Managers, find_managers


class Quiet:
    """A manager with nothing to say."""

    name = "quiet"

    def __init__(self, settings: ManagerSettings, clock: object) -> None:
        self.cluster = settings.cluster
        if settings.cluster == "none":
            raise ConfigError("cluster: there is none")

    def fetch_units(self, span: object) -> tuple[()]:
        return ()

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> tuple[()]:
        return ()

    def close(self) -> None:
        pass


QUIET = ManagerPlugin("quiet", "Says nothing.", ManagerSettings, Quiet, unit_manager="silent")
MANAGERS = Managers({"quiet": QUIET})


def test_each_entry_becomes_a_manager_of_its_cluster() -> None:
    built = MANAGERS.build([{"manager": "quiet", "cluster": name} for name in ("a", "b")], HandClock(0))

    assert [(each.claims, each.source.cluster) for each in built] == [("silent", "a"), ("silent", "b")]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "resource_managers.0.manager: expected one of quiet, found None"),
        ({"manager": "pbs", "cluster": "a"}, "resource_managers.0.manager: expected one of quiet, found 'pbs'"),
        ({"manager": "quiet"}, "resource_managers.0.cluster: Field required"),
        ({"manager": "quiet", "cluster": "a", "colour": 1}, "resource_managers.0.colour: Extra inputs"),
        ({"manager": "quiet", "cluster": "a b"}, "resource_managers.0.cluster: String should match"),
        ({"manager": "quiet", "cluster": "a", "interval_seconds": 0}, "resource_managers.0.interval_seconds: Input"),
        ({"manager": "quiet", "cluster": "none"}, "resource_managers.0.cluster: there is none"),
    ],
)
def test_a_wrong_entry_is_told_by_its_key(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        MANAGERS.build([entry], HandClock(0))


def test_two_managers_of_one_cluster_s_units_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"resource_managers\.1: units of silent in cluster a"):
        MANAGERS.build([{"manager": "quiet", "cluster": "a"}] * 2, HandClock(0))


def test_built_in_managers_are_found_by_walking_the_package() -> None:
    assert find_managers(outside=()).refused == ()
