"""How plug-ins are found, whatever their kind."""

import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kwhere.collectors.registry import find_collectors
from kwhere.core.plugins import FoundPlugins, PluginPlace, built_in_plugins, find_plugins
from kwhere.emission_factors.registry import find_providers
from kwhere.inventories.registry import find_inventories
from kwhere.resource_managers.registry import find_managers


@dataclass(frozen=True)
class Tool:
    name: str


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of two modules with a plug-in and one without."""
    folder = tmp_path / "toolbox"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "words.py").write_text("saw = 1\n")
    for name in ("saw", "axe"):
        (folder / f"{name}.py").write_text(f"from tests.unit.core.test_plugins import Tool\nplugin = Tool({name!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    import toolbox  # type: ignore[import-not-found]

    found: ModuleType = toolbox
    return found


@pytest.fixture(autouse=True)
def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "toolbox"]:
        del sys.modules[name]


def place(package: ModuleType) -> PluginPlace[Tool]:
    return PluginPlace(package, Tool, "toolbox", "tool")


def outside(monkeypatch: pytest.MonkeyPatch, plugin: object, group: str = "toolbox") -> EntryPoint:
    module = ModuleType("foreign_tool")
    module.plugin = plugin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign_tool", module)
    return EntryPoint("foreign", "foreign_tool:plugin", group)


def test_modules_are_walked_in_order_and_those_without_a_plug_in_passed_over(package: ModuleType) -> None:
    assert [tool.name for tool in built_in_plugins(package, Tool)] == ["axe", "saw"]


def test_outside_ones_stand_beside_them(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_plugins(place(package), [outside(monkeypatch, Tool("file"))])

    assert found == FoundPlugins({"axe": Tool("axe"), "saw": Tool("saw"), "file": Tool("file")}, ())


def test_what_cannot_be_used_is_refused_and_takes_nothing_from_the_others(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [outside(monkeypatch, Tool("saw")), EntryPoint("gone", "no_such_module_at_all:plugin", "toolbox")]

    found = find_plugins(place(package), points)

    assert set(found.plugins) == {"axe", "saw"}
    assert found.refused == (
        "tool foreign of foreign_tool:plugin: tool saw: there is another one of this name",
        "tool gone of no_such_module_at_all:plugin: No module named 'no_such_module_at_all'",
    )


def test_a_built_in_one_that_is_none_is_an_error_of_ours(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["toolbox"], "__path__", package.__path__)
    (Path(package.__path__[0]) / "words.py").write_text("plugin = 5\n")

    with pytest.raises(ValueError, match=r"toolbox\.words: expected a Tool, found 5"):
        find_plugins(place(package), ())


def test_a_check_of_the_kind_is_asked_last(package: ModuleType) -> None:
    seen: list[str] = []

    find_plugins(place(package), (), lambda tool: seen.append(tool.name))

    assert seen == ["axe", "saw"]


FINDERS: dict[str, tuple[Any, str]] = {
    "kwhere.collectors": (find_collectors, "collector"),
    "kwhere.emission_factors": (find_providers, "emission factor provider"),
    "kwhere.inventories": (find_inventories, "inventory source"),
    "kwhere.resource_managers": (find_managers, "resource manager"),
}


@pytest.mark.parametrize("group", FINDERS)
def test_every_kind_refuses_another_s_plug_in_in_its_own_words(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find, noun = FINDERS[group]

    found = find([outside(monkeypatch, Tool("x"), group)])

    assert found.refused[0].startswith(f"{noun} foreign of foreign_tool:plugin: expected a ")
    assert len(found.plugins) > 1
