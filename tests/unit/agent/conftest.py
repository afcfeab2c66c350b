from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agent.certificates import Authority, make_authority
from tests.unit.agent.faces import FaceMaker


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def foreign_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("foreign"), "another authority")


@pytest.fixture
def make_face(tmp_path: Path) -> Iterator[FaceMaker]:
    maker = FaceMaker(tmp_path)
    yield maker
    maker.close()
