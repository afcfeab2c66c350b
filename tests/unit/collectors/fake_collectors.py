"""Collectors of our own protocol for the framework's tests."""

from collections.abc import Callable, Iterator

from tests.unit.ledger.journals import StandingClock

from kwhere.collectors.collector import AnyPlugin, CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.hostfs import HostFS

VALUE = MetricSpec("kwhere_fake_value", Kind.GAUGE, "A value.", ("colour",))
COUNT = MetricSpec("kwhere_fake_total", Kind.COUNTER, "A count.")


class FakeSettings(CollectorSettings):
    factor: int = 1


class FakeCollector:
    def __init__(self, give: Callable[[], Iterator[Sample]]) -> None:
        self._give = give
        self.is_closed = False

    def collect(self) -> Iterator[Sample]:
        return self._give()

    def close(self) -> None:
        self.is_closed = True


def fake_plugin(
    name: str, give: Callable[[], Iterator[Sample]], specs: tuple[MetricSpec, ...] = (VALUE, COUNT)
) -> AnyPlugin:
    return CollectorPlugin(
        name=name,
        summary="A fake.",
        settings_class=FakeSettings,
        specs=specs,
        build=lambda context, settings: FakeCollector(give),
    )


def context(clock: StandingClock | None = None) -> CollectorContext:
    return CollectorContext(host=HostFS(), clock=clock or StandingClock())
