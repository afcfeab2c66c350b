import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
from tests.unit.collectors.fake_collectors import VALUE, FakeSettings, fake_plugin

from kwhere.collectors.collector import AnyPlugin, CollectorPlugin
from kwhere.collectors.registry import ENTRY_POINT_GROUP, find_collectors
from kwhere.core.metrics import Kind, MetricSpec


def outside(monkeypatch: pytest.MonkeyPatch, plugin: object, name: str = "foreign") -> EntryPoint:
    module = ModuleType("foreign_collector")
    module.plugin = plugin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign_collector", module)
    return EntryPoint(name, "foreign_collector:plugin", ENTRY_POINT_GROUP)


def test_built_in_collectors_are_found_by_walking_the_package() -> None:
    found = find_collectors()

    assert {"build_info", "journal"} <= set(found.plugins)
    assert found.refused == ()


def test_every_built_in_collector_is_well_formed() -> None:
    for name, plugin in find_collectors().plugins.items():
        assert plugin.name == name
        assert plugin.summary.endswith(".")
        assert plugin.settings_class().model_config["frozen"], name
        assert plugin.settings_class.model_config["extra"] == "forbid", name
        assert all(spec.name.startswith("kwhere_") for spec in plugin.specs)


def test_outside_collector_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = fake_plugin("foreign", lambda: iter([]))

    found = find_collectors([outside(monkeypatch, plugin)])

    assert found.plugins["foreign"] is plugin
    assert found.refused == ()


def clashing(name: str, kind: Kind = Kind.GAUGE) -> AnyPlugin:
    return fake_plugin("foreign", lambda: iter([]), (MetricSpec(name, kind, "Theirs."),))


REFUSED: dict[str, tuple[object, str]] = {
    "no_plugin": ("text", "expected a CollectorPlugin, found 'text'"),
    "name": (CollectorPlugin("Bad-Name", "x", FakeSettings, (VALUE,), lambda c, s: None), "found 'Bad-Name'"),  # type: ignore[arg-type, return-value]
    "same_name": (fake_plugin("journal", lambda: iter([])), "there is another one of this name"),
    "same_metric": (clashing("kwhere_journal_bytes"), "metric kwhere_journal_bytes is also journal's"),
    "same_family": (clashing("kwhere_build"), "metric kwhere_build is also build_info's"),
    "runner_s_metric": (clashing("kwhere_collector_up"), "metric kwhere_collector_up is also the runner's"),
    "metric_twice": (fake_plugin("foreign", lambda: iter([]), (VALUE, VALUE)), "kwhere_fake_value is also foreign's"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_faulty_outside_collector_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    plugin, reason = REFUSED[kind]

    found = find_collectors([outside(monkeypatch, plugin)])

    assert "foreign" not in found.plugins
    assert "journal" in found.plugins
    [refused] = found.refused
    assert refused.startswith("collector foreign of foreign_collector:plugin: ")
    assert reason in refused


def test_outside_collector_that_cannot_be_imported_is_refused() -> None:
    found = find_collectors([EntryPoint("gone", "no_such_module_at_all:plugin", ENTRY_POINT_GROUP)])

    assert "No module named 'no_such_module_at_all'" in found.refused[0]
