"""A driver that answers nonsense: whatever it says, nothing impossible comes out, and the page can be read."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.fake_nvml.gpus import A100, GH200, H100, L40S, P100, V100, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import FakeGpu
from tests.unit.dcgm.hand_made import PLAIN

from kwhere.dcgm.counters import read_counters
from kwhere.dcgm.page import Page
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import GpuSnapshot, Readings

pytestmark = [pytest.mark.service("cc"), pytest.mark.slow]

NONSENSE = [
    *(0, 1, -1, 100, 101, 255, 65535, 2**31, 2**32 - 16, 2**32 - 1, 2147483634, 2**47, 2**63, 2**63 - 14, 2**64 - 1),
    *("nan", "inf", "-1.5", ""),
]
LAYOUTS = [["1g.10gb"] * 7, ["3g.20gb", "2g.10gb"], ["1c.3g.20gb", "7g.40gb"]]
KEPT = ("UUID", "Name", "PciInfo", "MigMode", "MaxMigDeviceCount")
LARGEST = {"_ratio": 1, "_percent": 1000, "_mc": 300_000, "_hz": 5e10, "power_": 1e11, "memory_": 2**46, "bar1_": 2**46}


@st.composite
def drivers(draw: st.DrawFn) -> FakeGpu:
    """Draw a GPU of which some facts are nonsense."""
    model = draw(st.sampled_from([P100, V100, A100, L40S, H100, GH200]))
    device = gpu(model, 0)
    if model.has_mig and draw(st.booleans()):
        split(device, draw(st.sampled_from(LAYOUTS)))
    for key in draw(st.lists(st.sampled_from([one for one in device.facts if one not in KEPT]), max_size=12)):
        words = max(1, len(str(device.facts[key]).split()))
        device.facts[key] = " ".join(str(draw(st.sampled_from(NONSENSE))) for _ in range(words))
    for mig in device.migs.values():
        for key in mig.facts:
            mig.facts[key] = str(draw(st.sampled_from([0.5, *NONSENSE])))
    device.process(draw(st.sampled_from([0, 1, 4194305, 2**32 - 1])), draw(st.sampled_from([None, 0, 2**62])))
    return device


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuNode]:
    made = GpuNode(tmp_path_factory.mktemp("nonsense"))
    yield made
    made.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(device=drivers())
def test_nothing_impossible_comes_out(node: GpuNode, device: FakeGpu) -> None:
    node.scenario.gpus[:] = [device]
    node.write()
    node.watch.release()
    node.watch.acquire()

    found = node.poll()

    for readings in every(found):
        for name, value in readings.values.items():
            assert value == value, name
            assert value >= (-300_000 if name.value.endswith("_mc") else 0), name
            ends = [most for word, most in LARGEST.items() if name.value.endswith(word) or name.value.startswith(word)]
            assert all(value <= most for most in ends), (name, value)
    for process in found.devices[0].processes or ():
        assert 0 < process.pid <= 1 << 22
        assert process.memory_bytes is None or process.memory_bytes <= 2**46
    page = Page(PLAIN, Watcher()).render(found, read_counters(None)).decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    places = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(places) == len(set(places))


def every(found: GpuSnapshot) -> Iterator[Readings]:
    for state in found.devices:
        if state.readings is not None:
            yield state.readings
        for one in state.instances:
            yield one.readings
