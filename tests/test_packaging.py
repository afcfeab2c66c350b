"""What is shipped beside the code is right: the sample configuration, the service units."""

import configparser
from pathlib import Path

import pytest

from kwhere.apps.configuration import load
from kwhere.apps.settings import Settings
from kwhere.cli.main import COMMANDS

PACKAGING = Path(__file__).parents[1] / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))


def test_the_sample_configuration_is_accepted() -> None:
    settings = load(Settings, PACKAGING / "kwhere.yaml")

    assert [group.cluster for group in settings.server.targets] == ["alpha"]
    assert settings.site.zone == "FR"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_service_starts_a_command_that_exists_with_bounds(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read(unit)
    service = parser["Service"]

    words = service["ExecStart"].split()

    assert words[0] == "/opt/kwhere/bin/kwhere"
    assert words[1] in COMMANDS
    assert "MemoryHigh" in service
    assert service["NoNewPrivileges"] == "yes"
    assert "CapabilityBoundingSet" in service
