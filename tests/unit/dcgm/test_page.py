"""Lines of the page: values, labels, and what must never be on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.dcgm.hand_made import SECOND, device, instance, samples, snapshot, values_of

from kwhere.dcgm.device_choice import parse_choice
from kwhere.dcgm.holdings import Holders, NoJobs, PodFacts, PodHold, PodOptions
from kwhere.dcgm.names import HostnameLabel, MappingLabels, MigValues
from kwhere.dcgm.page import HOLDER_INFO, NVLINK_BYTES, PageOptions, number
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import LinkReadings, XidCount
from kwhere.devices.gpu_fields import GpuField

MEBI = 1 << 20
HEAD = 'gpu="0",UUID="GPU-0",pci_bus_id="00000000:00:00.0",device="nvidia0",modelName="NVIDIA A100"'
POWER = "DCGM_FI_DEV_POWER_USAGE"
MEMORY = {
    GpuField.MEMORY_TOTAL_BYTES: 40960 * MEBI,
    GpuField.MEMORY_USED_BYTES: 100 * MEBI,
    GpuField.MEMORY_FREE_BYTES: 40285 * MEBI,
    GpuField.MEMORY_RESERVED_BYTES: 575 * MEBI,
}


def test_no_sample_for_utilisation_of_a_divided_gpu_case_gpu_1_30() -> None:
    divided = device(0, {GpuField.GPU_UTIL_PERCENT: 0, GpuField.POWER_UW: 1}, instances=[instance(1)])

    lines = samples(
        snapshot(divided),
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "DCGM_FI_DEV_ENC_UTIL",
        "DCGM_FI_DEV_DEC_UTIL",
    )

    assert lines == []


def test_activity_of_an_instance_stands_in_for_utilisation_case_gpu_30() -> None:
    divided = device(0, instances=[instance(1, {GpuField.PROF_GRAPHICS_RATIO: 0.25})])

    assert values_of(samples(snapshot(divided), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == ["0.250000"]


def test_a_blank_is_no_sample_and_takes_no_other_along_case_gpu_2() -> None:
    divided = device(0, {GpuField.POWER_UW: 5_000_000}, instances=[instance(1)])

    lines = samples(snapshot(divided), "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", POWER)

    assert values_of(lines) == ["5.000000"]


@pytest.mark.parametrize("energy_mj", range(2147483632, 2147483636))
def test_an_energy_that_looks_like_a_blank_is_exported_case_gpu_5(energy_mj: int) -> None:
    one = device(0, {GpuField.ENERGY_UJ: energy_mj * 1000 + 999})

    assert values_of(samples(snapshot(one), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter")) == [str(energy_mj)]


def test_nvlink_rate_keeps_its_name_and_a_true_counter_stands_beside_it_case_gpu_6() -> None:
    watcher = Watcher()
    sent, received = GpuField.NVLINK_TX_BYTES, GpuField.NVLINK_RX_BYTES
    before = snapshot(device(0, {sent: 0, received: 0}, medium_ns=10 * SECOND))
    after = snapshot(device(0, {sent: 3 * 1024_000_000, received: 1024_000_000}, medium_ns=12 * SECOND))
    watcher.observe(before)

    first = samples(before, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter", watcher=watcher)
    watcher.observe(after)
    second = samples(after, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter", watcher=watcher)

    assert first == [f"{NVLINK_BYTES}{{{HEAD}}} 0"]  # a rate needs two readings: not 0, absent
    # 4,096,000,000 bytes in 2 s are 2,000,000 KiB/s
    assert values_of(second) == ["2000", "4096000000"]


def test_memory_adds_up_with_what_the_driver_reserves_case_gpu_9_10() -> None:
    rows = [f"DCGM_FI_DEV_FB_{name}" for name in ("TOTAL", "USED", "FREE", "RESERVED", "USED_PERCENT")]

    total, used, free, reserved, ratio = values_of(samples(snapshot(device(0, MEMORY)), *rows))

    assert int(total) == int(used) + int(free) + int(reserved)
    assert int(used) == 100
    assert ratio == f"{100 / (40960 - 575):.6f}"


def test_device_values_repeat_on_instances_or_stand_once_case_gpu_29() -> None:
    seven = [instance(gi, {GpuField.MEMORY_USED_BYTES: gi * MEBI}) for gi in range(7)]
    found = snapshot(device(0, {GpuField.POWER_UW: 200_000_000}, instances=seven))

    repeated = samples(found, POWER)
    once = samples(found, POWER, "DCGM_FI_DEV_FB_USED", options=PageOptions(mig_values=MigValues.ONCE))

    assert values_of(repeated) == ["200.000000"] * 7
    assert once[0] == f"{POWER}{{{HEAD}}} 200.000000"
    assert values_of(once) == ["200.000000", *(str(gi) for gi in range(7))]


def test_instances_of_a_mixed_node_have_memory_case_gpu_32() -> None:
    divided = device(0, MEMORY, instances=[instance(1, {GpuField.MEMORY_USED_BYTES: 7 * MEBI})])

    lines = samples(snapshot(divided, device(1, MEMORY)), "DCGM_FI_DEV_FB_USED")

    assert values_of(lines) == ["7", "100"]
    assert 'GPU_I_PROFILE="1g.5gb",GPU_I_ID="1"' in lines[0]


def test_a_new_layout_leaves_nothing_of_the_old_case_gpu_37() -> None:
    watcher = Watcher()
    old = snapshot(device(0, {GpuField.POWER_UW: 1}, instances=[instance(1), instance(2)]))
    new = snapshot(device(0, {GpuField.POWER_UW: 1}, instances=[instance(3, profile="3g.20gb")]))

    before, after = samples(old, POWER, watcher=watcher), samples(new, POWER, watcher=watcher)

    assert len(before) == 2
    assert [line for line in after if 'GPU_I_ID="3"' in line] == after


def test_compute_instances_of_one_gpu_instance_are_one_series_case_gpu_85() -> None:
    parts = [instance(1, MEMORY, ci=ci, profile="1c.3g.20gb") for ci in (0, 1, 2)]

    [line] = samples(snapshot(device(0, instances=parts)), "DCGM_FI_DEV_FB_USED")

    assert 'GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"' in line


def test_an_xid_twice_is_seen_twice_case_gpu_77() -> None:
    now = [0]
    watcher = Watcher(clock_ns=lambda: now[0], utc_ns=lambda: now[0])
    watcher.observe(snapshot(device(0)))
    rows = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT, counter")
    for count in (1, 2):
        now[0] += SECOND
        found = snapshot(device(0, xids=[XidCount(31, count, now[0])]))
        watcher.observe(found)

    gauge, counted = samples(found, *rows, watcher=watcher)
    now[0] += 301 * SECOND
    watcher.observe(found)
    later = samples(found, *rows, watcher=watcher)

    assert gauge == f'DCGM_FI_DEV_XID_ERRORS{{{HEAD},err_code="31",err_msg="GPU memory page fault"}} 31'
    assert counted == f'DCGM_EXP_XID_ERRORS_COUNT{{{HEAD},window_size_in_ms="300000",xid="31"}} 2'
    assert later[0] == gauge
    assert later[1] == f'DCGM_EXP_XID_ERRORS_COUNT{{{HEAD},window_size_in_ms="300000"}} 0'


@pytest.mark.parametrize("xid", [173, 999, 4_000_000_000])
def test_an_xid_above_the_table_is_unknown_case_gpu_78(xid: int) -> None:
    [line] = samples(snapshot(device(0, xids=[XidCount(xid, 1, 1)])), "DCGM_FI_DEV_XID_ERRORS")

    assert line.endswith(f'err_code="{xid}",err_msg="Unknown Error"}} {xid}')


def test_an_xid_of_an_instance_is_not_its_neighbours() -> None:
    xids = [XidCount(43, 1, 5, gpu_instance=2), XidCount(48, 1, 3)]
    found = snapshot(device(0, instances=[instance(1), instance(2)], xids=xids))

    assert values_of(samples(found, "DCGM_FI_DEV_XID_ERRORS")) == ["48", "43"]


def test_xids_of_a_lost_gpu_are_still_told_case_gpu_94() -> None:
    lost = device(0, {GpuField.POWER_UW: 1}, up=False, xids=[XidCount(79, 1, 1)])
    found, watcher = snapshot(lost, device(1, {GpuField.POWER_UW: 2_000_000})), Watcher(utc_ns=lambda: 2)
    watcher.observe(found)

    lines = samples(found, POWER, "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT, counter", watcher=watcher)

    assert values_of(lines) == ["2.000000", "79", "0", "1", "0"]


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "ä\ud800", 'a\\"\n'])
def test_label_values_are_escaped_case_gpu_83(value: str) -> None:
    pods = [PodHold("ns", "p", "c", "GPU-0")]
    holders = Holders(
        pods,
        NoJobs(),
        PodOptions(with_labels=True),
        lambda _namespace, _pod: PodFacts(labels={"app.kubernetes.io/name": value}),
    )

    lines = samples(snapshot(device(0, {GpuField.POWER_UW: 1}, model=value)), POWER, holders=holders)

    [family] = text_string_to_metric_families("\n".join(lines) + "\n")
    expected = value.replace("\ud800", "\ufffd")
    assert family.samples[0].labels["app_kubernetes_io_name"] == expected
    assert family.samples[0].labels["modelName"] == expected


def test_a_series_never_stands_twice_case_gpu_85_86() -> None:
    twice = [PodHold("ns", "p", "c", "GPU-0"), PodHold("ns", "p", "c", "GPU-0")]
    holders = Holders(twice, NoJobs(), PodOptions(virtual_gpus=True))

    assert len(samples(snapshot(device(0, {GpuField.POWER_UW: 1})), POWER, holders=holders)) == 1


def test_a_gpu_with_a_pod_has_no_series_without_it_case_gpu_86() -> None:
    holders = Holders([PodHold("ns", "p", "c", "GPU-0")], NoJobs())

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 1})), POWER, holders=holders)

    assert line == f'{POWER}{{{HEAD},container="c",namespace="ns",pod="p"}} 0.000001'


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (HostnameLabel.UPPER, ',Hostname="n"'),
        (HostnameLabel.LOWER, ',hostname="n"'),
        (HostnameLabel.BOTH, ',Hostname="n",hostname="n"'),
    ],
)
def test_hostname_is_spelt_as_dashboards_want_it_case_gpu_89(label: HostnameLabel, text: str) -> None:
    options = PageOptions(hostname="n", hostname_label=label)

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, options=options)

    assert line == f"{POWER}{{{HEAD}{text}}} 0.000000"


def test_labels_of_pods_may_have_a_prefix_case_gpu_53() -> None:
    holders = Holders([PodHold("ns", "p", "c", "GPU-0")], NoJobs(), PodOptions(prefix="gpu_"))

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=holders)

    assert 'gpu_container="c",gpu_namespace="ns",gpu_pod="p"' in line


def test_holders_may_be_a_series_to_join_case_gpu_67() -> None:
    holders = Holders([PodHold("ns", "p", "c", "GPU-0")], NoJobs())
    options = PageOptions(mapping_labels=MappingLabels.INFO)

    lines = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, options=options, holders=holders)

    assert lines == [
        f'{HOLDER_INFO}{{{HEAD},container="c",namespace="ns",pod="p"}} 1',
        f"{POWER}{{{HEAD}}} 0.000000",
    ]


def test_old_namespace_has_the_labels_of_1x() -> None:
    holders = Holders([PodHold("ns", "p", "c", "GPU-0")], NoJobs(), PodOptions(old_namespace=True))

    [line] = samples(
        snapshot(device(0, {GpuField.TEMPERATURE_MC: 41_999})),
        "dcgm_gpu_temp",
        options=PageOptions(old_namespace=True),
        holders=holders,
    )

    labels = HEAD.replace("UUID", "uuid")
    assert line == f'dcgm_gpu_temp{{{labels},container_name="c",pod_name="p",pod_namespace="ns"}} 41'


def test_blanks_in_models_become_dashes() -> None:
    one = device(0, {GpuField.POWER_UW: 0}, model="NVIDIA  A100 80GB")

    [line] = samples(snapshot(one), POWER, options=PageOptions(replace_blanks=True))

    assert 'modelName="NVIDIA-A100-80GB"' in line


def test_links_have_lines_of_their_own() -> None:
    link = LinkReadings(3, True, {GpuField.NVLINK_TX_BYTES: 7})

    [line] = samples(
        snapshot(device(0, links=[link])), "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", options=PageOptions(hostname="n")
    )

    assert line == (
        'DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES{nvlink="3",gpu="0",gpu_uuid="GPU-0",pci_bus_id="00000000:00:00.0",'
        'device="nvidia0",model_name="NVIDIA A100",hostname="n"} 7'
    )


@pytest.mark.parametrize(
    ("choice", "shown"),
    [("f", ["i1", "i2", "1"]), ("g", ["0", "1"]), ("g:1", ["1"]), ("i", ["i1", "i2"]), ("i:1", ["i2"])],
)
def test_choice_of_devices(choice: str, shown: list[str]) -> None:
    divided = device(0, {GpuField.POWER_UW: 0}, instances=[instance(1), instance(2)])
    options = PageOptions(choice=parse_choice(choice, "d"))

    lines = samples(snapshot(divided, device(1, {GpuField.POWER_UW: 0})), POWER, options=options)

    names = {'GPU_I_ID="1"': "i1", 'GPU_I_ID="2"': "i2", 'gpu="0"': "0", 'gpu="1"': "1"}
    assert [next(name for word, name in names.items() if word in line) for line in lines] == shown


def test_a_divided_gpu_without_instances_is_shown_whole() -> None:
    empty = device(0, {GpuField.POWER_UW: 0}, instances=[instance(1)])

    lines = samples(snapshot(empty.__class__(empty.device, up=True, readings=empty.readings)), POWER)

    assert lines == [f"{POWER}{{{HEAD}}} 0.000000"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(67, "67"), (67.123, "67.123000"), (0.0, "0.000000"), (float("nan"), None), (float("inf"), None), (None, None)],
)
def test_numbers_are_printed_as_go_does(value: int | float | None, text: str | None) -> None:
    assert number(value) == text


_FIELD_VALUES = st.dictionaries(
    st.sampled_from(sorted(GpuField)), st.integers(0, 2**63 - 1) | st.floats(0, 1), max_size=8
)


@given(st.lists(_FIELD_VALUES, min_size=1, max_size=3), st.text(max_size=8), st.booleans())
def test_any_reading_makes_a_page_that_parses(
    readings: list[dict[GpuField, int | float]], model: str, divided: bool
) -> None:
    rows = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"]
    found = snapshot(
        *(
            device(index, values, model=model, instances=[instance(1, values)] if divided else [])
            for index, values in enumerate(readings)
        )
    )

    lines = samples(found, *rows, "DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_XID_ERRORS_COUNT, counter")

    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series))
    list(text_string_to_metric_families("\n".join(lines) + "\n"))
