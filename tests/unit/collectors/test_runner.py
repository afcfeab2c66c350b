import threading
from collections.abc import Callable, Iterator

import pytest
from tests.unit.collectors.fake_collectors import COUNT, VALUE, FakeCollector, FakeSettings, context, fake_plugin
from tests.unit.ledger.journals import StandingClock

from kwhere.collectors import runner as runner_module
from kwhere.collectors.collector import AnyPlugin, CollectorPlugin
from kwhere.collectors.runner import DURATION, ERRORS, UP, CollectorRunner
from kwhere.core.errors import NoData, NotFound, SourceError, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample

GOOD = Sample(VALUE, ("red",), 1.5)


def runner_of(*plugins: AnyPlugin, clock: StandingClock | None = None) -> CollectorRunner:
    return CollectorRunner([(plugin, plugin.settings_class()) for plugin in plugins], context(clock))


def value_of(samples: list[Sample], spec: MetricSpec, *labels: str) -> float:
    [found] = [sample.value for sample in samples if sample.spec == spec and sample.labels == labels]
    return found


def good() -> Iterator[Sample]:
    yield GOOD


def test_scrape_holds_the_samples_and_how_it_went() -> None:
    clock = StandingClock()

    def slow() -> Iterator[Sample]:
        clock.now_ns += 250_000_000
        yield GOOD

    samples = runner_of(fake_plugin("one", slow), clock=clock).collect()

    assert samples[0] == GOOD
    assert value_of(samples, UP, "one") == 1
    assert value_of(samples, DURATION, "one") == 0.25
    assert value_of(samples, ERRORS, "one") == 0


def failing(error: Exception) -> Callable[[], Iterator[Sample]]:
    def give() -> Iterator[Sample]:
        yield GOOD
        raise error

    return give


@pytest.mark.parametrize(
    "error",
    [
        SourceError("nonsense"),
        Unavailable("permission", "closed"),
        OSError(5, "I/O"),
        ZeroDivisionError(),
        RecursionError(),
    ],
)
def test_failure_of_one_collector_leaves_the_others(error: Exception) -> None:
    samples = runner_of(fake_plugin("bad", failing(error)), fake_plugin("good", good, (VALUE,))).collect()

    assert value_of(samples, UP, "bad") == 0
    assert value_of(samples, ERRORS, "bad") == 1
    assert value_of(samples, UP, "good") == 1
    assert samples.count(GOOD) == 2


def test_nothing_to_say_is_no_failure() -> None:
    samples = runner_of(fake_plugin("quiet", failing(NoData("none")))).collect()

    assert value_of(samples, UP, "quiet") == 1
    assert value_of(samples, ERRORS, "quiet") == 0


BAD_SAMPLES = {
    "undeclared": Sample(MetricSpec("kwhere_other", Kind.GAUGE, "Other."), (), 1),
    "redeclared": Sample(MetricSpec("kwhere_fake_value", Kind.GAUGE, "Other.", ("colour", "size")), ("a", "b"), 1),
    "too_few_labels": Sample(VALUE, (), 1),
    "too_many_labels": Sample(VALUE, ("a", "b"), 1),
    "label_no_text": Sample(VALUE, (7,), 1),  # type: ignore[arg-type]
    "none": Sample(VALUE, ("a",), None),  # type: ignore[arg-type]
    "bool": Sample(VALUE, ("a",), True),
    "text": Sample(VALUE, ("a",), "1"),  # type: ignore[arg-type]
    "repeated": GOOD,
}


@pytest.mark.parametrize("kind", BAD_SAMPLES)
def test_bad_sample_is_left_out_and_the_good_ones_stay(kind: str) -> None:
    samples = runner_of(fake_plugin("one", lambda: iter([GOOD, BAD_SAMPLES[kind], Sample(COUNT, (), 3)]))).collect()

    assert samples[:2] == [GOOD, Sample(COUNT, (), 3)]
    assert value_of(samples, UP, "one") == 0
    assert value_of(samples, ERRORS, "one") == 1


def test_equal_spec_of_another_object_is_the_same() -> None:
    twin = MetricSpec(VALUE.name, VALUE.kind, VALUE.help, VALUE.labels)

    samples = runner_of(fake_plugin("one", lambda: iter([Sample(twin, ("red",), 1)]))).collect()

    assert value_of(samples, UP, "one") == 1


def test_only_the_named_collectors_run() -> None:
    runner = runner_of(fake_plugin("one", good), fake_plugin("two", failing(SourceError("x"))))

    samples = runner.collect(["one"])

    assert {sample.labels for sample in samples if sample.spec == UP} == {("one",)}
    assert runner.names == ("one", "two")


def test_unknown_collector_is_not_found() -> None:
    with pytest.raises(NotFound, match="collector nope: expected one of one"):
        runner_of(fake_plugin("one", good)).collect(["one", "nope"])


def test_source_that_is_not_there_is_looked_for_again_after_a_minute() -> None:
    clock = StandingClock()
    attempts = []

    def build(context: object, settings: FakeSettings) -> FakeCollector:
        attempts.append(clock.now_ns)
        if len(attempts) < 2:
            raise Unavailable("absent", "no such device")
        return FakeCollector(good)

    runner = runner_of(CollectorPlugin("late", "Late.", FakeSettings, (VALUE,), build), clock=clock)

    assert runner.collect() == []
    clock.now_ns += 59 * 10**9
    assert runner.collect() == []
    assert len(attempts) == 1
    clock.now_ns += 10**9
    samples = runner.collect()
    assert value_of(samples, UP, "late") == 1
    assert value_of(samples, ERRORS, "late") == 0
    assert GOOD in samples


@pytest.mark.parametrize(("reason", "series"), [("absent", 0), ("unsupported", 0), ("permission", 3), ("driver", 3)])
def test_what_a_machine_lacks_has_no_series_and_what_it_refuses_has(reason: str, series: int) -> None:
    def build(context: object, settings: FakeSettings) -> FakeCollector:
        raise Unavailable(reason, "expected a sensor")

    runner = runner_of(CollectorPlugin("warm", "Warm.", FakeSettings, (VALUE,), build))

    assert len(runner.collect()) == series


def test_what_a_machine_lacks_is_told_once_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StandingClock()

    def build(context: object, settings: FakeSettings) -> FakeCollector:
        raise Unavailable("absent", "expected a sensor, found none")

    runner = runner_of(CollectorPlugin("warm", "Warm.", FakeSettings, (VALUE,), build), clock=clock)
    for passed_s in (0, 60, 7200):
        clock.now_ns += passed_s * 10**9
        runner.collect()

    (line,) = capsys.readouterr().out.splitlines()
    assert "nothing to read" in line
    assert "warning" not in line


def test_collector_that_cannot_be_built_fails_alone() -> None:
    def build(context: object, settings: FakeSettings) -> FakeCollector:
        raise KeyError("bug")

    runner = runner_of(CollectorPlugin("bug", "Bug.", FakeSettings, (), build), fake_plugin("good", good))

    samples = runner.collect()

    assert value_of(samples, ERRORS, "bug") == 1
    assert value_of(samples, UP, "good") == 1


def test_repeated_failure_is_logged_on_change_then_hourly(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StandingClock()
    errors = iter([SourceError("first")] * 4 + [SourceError("second")])

    def give() -> Iterator[Sample]:
        yield GOOD
        raise next(errors)

    runner = runner_of(fake_plugin("bad", give), clock=clock)
    for passed_s in (0, 15, 3600, 15, 15):
        clock.now_ns += passed_s * 10**9
        runner.collect()

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "'bad': 2" in lines[1]
    assert "second" in lines[2]


def test_a_day_with_every_collector_broken_fills_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StandingClock()
    numbers = iter(range(10**9))

    def changing() -> Iterator[Sample]:
        yield GOOD
        raise SourceError(f"found {next(numbers)}")

    def flapping() -> Iterator[Sample]:
        yield GOOD
        if next(numbers) % 2:
            raise OSError(5, "I/O error")

    plugins = [fake_plugin(f"same{n}", failing(SourceError("nonsense"))) for n in range(6)]
    plugins += [fake_plugin(f"changing{n}", changing) for n in range(4)]
    plugins += [fake_plugin(f"flapping{n}", flapping) for n in range(4)]
    runner = runner_of(*plugins, clock=clock)
    day_of = 86_400 // 60
    for _ in range(day_of):
        clock.now_ns += 60 * 10**9
        runner.collect()

    assert len(capsys.readouterr().out.splitlines()) <= 100 + 40


def test_concurrent_scrapes_see_the_same() -> None:
    running = threading.Lock()

    def give() -> Iterator[Sample]:
        assert running.acquire(blocking=False), "two scrapes in one collector"
        yield GOOD
        running.release()

    runner = runner_of(fake_plugin("one", give))
    found: list[list[Sample]] = []
    threads = [threading.Thread(target=lambda: found.append(runner.collect())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [value_of(samples, UP, "one") for samples in found] == [1] * 8


def test_scrape_does_not_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "_BUSY_SECONDS", 0.01)
    entered, free = threading.Event(), threading.Event()

    def hang() -> Iterator[Sample]:
        entered.set()
        free.wait()
        yield GOOD

    runner = runner_of(fake_plugin("stuck", hang), fake_plugin("good", good))
    first = threading.Thread(target=runner.collect)
    first.start()
    entered.wait()

    samples = runner.collect()
    free.set()
    first.join()

    assert value_of(samples, UP, "stuck") == 0
    assert value_of(samples, UP, "good") == 1


def test_closing_closes_what_was_built() -> None:
    built: list[FakeCollector] = []

    def build(context: object, settings: FakeSettings) -> FakeCollector:
        built.append(FakeCollector(good))
        return built[-1]

    runner = runner_of(CollectorPlugin("one", "One.", FakeSettings, (VALUE,), build))
    runner.close()
    runner.collect()
    runner.close()

    assert [collector.is_closed for collector in built] == [True]
