"""Hosts of tests/fixtures/hosts, and what a collector says of one."""

from typing import Any

from tests.fixtures.hosts.build import HOSTS

from kwhere.collectors.collector import AnyPlugin, Collector, CollectorContext
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of

Values = dict[tuple[str, tuple[str, ...]], float | int]


def open_host(name: str) -> HostFS:
    """Return the recorded host at its first moment."""
    return HostFS(HOSTS / name / "proc", HOSTS / name / "sys", HOSTS / name / "cgroup")


def build_collector(plugin: AnyPlugin, fs: HostFS, **settings: Any) -> Collector:
    """Return the collector, with these of its settings."""
    return plugin.build(CollectorContext(fs, clock_of(fs)), plugin.settings_class(**settings))


def values(collector: Collector, plugin: AnyPlugin) -> Values:
    """Return what a collector says now, by metric and labels; each is declared, has its labels, and comes once."""
    samples = list(collector.collect())
    found = {(sample.spec.name, sample.labels): sample.value for sample in samples}
    assert len(found) == len(samples)
    assert all(s.spec in plugin.specs and len(s.labels) == len(s.spec.labels) and all(s.labels) for s in samples)
    return found


def said(plugin: AnyPlugin, fs: HostFS, **settings: Any) -> Values:
    """Return what a collector built for this alone says."""
    collector = build_collector(plugin, fs, **settings)
    try:
        return values(collector, plugin)
    finally:
        collector.close()


def said_at_both_moments(plugin: AnyPlugin, fs: HostFS) -> tuple[Values, Values]:
    """Return what one collector says at the first and at the second moment."""
    collector = build_collector(plugin, fs)
    try:
        first = values(collector, plugin)
        fs.select_snapshot(1)
        return first, values(collector, plugin)
    finally:
        collector.close()
