"""What tests of discovery open is closed when they end."""

from collections.abc import Iterator
from typing import Any

import pytest

from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.process_units import ProcessUnits


@pytest.fixture(autouse=True)
def _close_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[CgroupUnits | ProcessUnits] = []

    def remember(kind: type[Any]) -> None:
        build = kind.__init__

        def noted(self: Any, *arguments: Any, **named: Any) -> None:
            opened.append(self)
            build(self, *arguments, **named)

        monkeypatch.setattr(kind, "__init__", noted)

    remember(CgroupUnits)
    remember(ProcessUnits)
    yield
    for source in opened:
        source.close()
