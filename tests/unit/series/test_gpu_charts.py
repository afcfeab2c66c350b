"""Charts of the GPUs that a unit held: a line per place, only while it was held, causes that ever were."""

from datetime import datetime

import pytest
from tests.unit.series.test_charts import SeriesList, span

from kwhere.series.gpu_charts import GPU_CHARTS, GpuPlace, gpu_chart


def at(second: float) -> datetime:
    return span(second, second + 1).start


def place(uuid: str = "GPU-0", mig: str = "", label: str = "GPU 0", start: float = 0, end: float = 100) -> GpuPlace:
    return GpuPlace("n1", uuid, mig, label, at(start), at(end))


def gpu_series(store: SeriesList, name: str, *samples: tuple[float, float], **labels: str) -> None:
    store.add(name, samples, **{"cluster": "c", "node": "n1", "gpu": "0", "uuid": "GPU-0", **labels})


def test_a_line_per_device_and_not_those_of_others() -> None:
    store = SeriesList()
    gpu_series(store, "kwhere_gpu_power_watts", (10, 300), (20, 310))
    gpu_series(store, "kwhere_gpu_power_watts", (10, 70), (20, 71), uuid="GPU-1", gpu="1")
    gpu_series(store, "kwhere_gpu_power_watts", (10, 500), (20, 500), uuid="GPU-9", gpu="9")
    gpu_series(store, "kwhere_gpu_power_watts", (10, 600), (20, 600), node="n2")

    chart = gpu_chart(store, "c", [place(), place("GPU-1", label="GPU 1")], "gpu_power", span(0, 20), 10)

    assert [(column.label, column.values) for column in chart.columns] == [("GPU 0", (300, 310)), ("GPU 1", (70, 71))]
    assert (chart.title, chart.unit, chart.times) == ("GPU power", "watts", (10, 20))


def test_what_it_did_before_and_after_is_others() -> None:
    store = SeriesList()
    gpu_series(store, "kwhere_gpu_power_watts", *((10.0 * n, 100.0 + n) for n in range(1, 9)))

    chart = gpu_chart(store, "c", [place(start=30, end=50)], "gpu_power", span(0, 80), 10)

    assert chart.columns[0].values == (None, None, 103, 104, 105, 106, None, None)


def test_an_instance_has_its_own_tensor_activity_and_not_its_devices_power() -> None:
    store = SeriesList()
    gpu_series(store, "kwhere_gpu_activity_ratio", (10, 0.2), part="tensor")
    gpu_series(store, "kwhere_gpu_activity_ratio", (10, 0.7), part="tensor", mig="MIG-1")
    gpu_series(store, "kwhere_gpu_activity_ratio", (10, 0.9), part="sm", mig="MIG-1")
    gpu_series(store, "kwhere_gpu_power_watts", (10, 300))
    held = [place(mig="MIG-1", label="GPU 0 1g.10gb")]

    tensor = gpu_chart(store, "c", held, "gpu_tensor", span(0, 10), 10)
    power = gpu_chart(store, "c", held, "gpu_power", span(0, 10), 10)

    assert [(column.label, column.values) for column in tensor.columns] == [("GPU 0 1g.10gb", (0.7,))]
    assert power.columns == ()


def test_only_causes_that_held_the_clocks_have_a_line() -> None:
    store = SeriesList()
    gpu_series(store, "kwhere_gpu_throttled_seconds_total", (0, 5), (10, 7), (20, 9), cause="power")
    gpu_series(store, "kwhere_gpu_throttled_seconds_total", (0, 3), (10, 3), (20, 3), cause="thermal")

    chart = gpu_chart(store, "c", [place()], "gpu_throttling", span(0, 20), 10)

    (column,) = chart.columns
    assert column.labels == {"node": "n1", "uuid": "GPU-0", "mig": "", "cause": "power"}
    assert column.values == pytest.approx((0.2, 0.2))


@pytest.mark.parametrize("name", list(GPU_CHARTS))
def test_nothing_held_is_no_line(name: str) -> None:
    assert gpu_chart(SeriesList(), "c", [], name, span(0, 20), 10).columns == ()
