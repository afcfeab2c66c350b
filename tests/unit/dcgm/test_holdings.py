"""Pods as labels, and what each pod has of a GPU that several share."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.dcgm.hand_made import device, instance, samples, snapshot, values_of

from kwhere.core.errors import ConfigError
from kwhere.dcgm.device_choice import absent_of, parse_choice
from kwhere.dcgm.holdings import Holders, NoJobs, PodFacts, PodHold, PodOptions, label_name
from kwhere.dcgm.page import PageOptions
from kwhere.dcgm.sharing import Sharing
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import DeviceState, GpuProcess
from kwhere.devices.gpu_fields import GpuField

MEBI = 1 << 20
POWER = "DCGM_FI_DEV_POWER_USAGE"
VIRTUAL = PageOptions(virtual_gpus=True)
ALICE = PodHold("ns", "alice", "c", "GPU-0", replica=0, pod_uid="a")
BOB = PodHold("ns", "bob", "c", "GPU-0", replica=1, pod_uid="b")


def busy(pid: int, sm: int, memory: int) -> GpuProcess:
    return GpuProcess(pid, memory_bytes=memory * MEBI, sm_percent=sm)


def shared(*processes: GpuProcess) -> DeviceState:
    return device(
        0,
        {GpuField.POWER_UW: 300_000_000, GpuField.GPU_UTIL_PERCENT: 99, GpuField.MEMORY_USED_BYTES: 900 * MEBI},
        processes=processes,
    )


def owner(pid: int) -> str | None:
    return {1: "a", 2: "b", 3: "b"}.get(pid)


def split(state: DeviceState, *rows: str, watcher: Watcher | None = None) -> list[str]:
    pods = [ALICE, BOB]
    holders = Holders(pods, NoJobs(), PodOptions(virtual_gpus=True))
    return samples(
        snapshot(state), *rows, options=VIRTUAL, holders=holders, sharing=Sharing(pods, owner), watcher=watcher
    )


def test_pods_share_what_the_device_shows_case_gpu_44() -> None:
    state = shared(busy(1, 30, 100), busy(2, 50, 200), busy(3, 10, 300))

    power = split(state, POWER)
    util = split(state, "DCGM_FI_DEV_GPU_UTIL")
    memory = split(state, "DCGM_FI_DEV_FB_USED")

    # 30 of 90 and 60 of 90 of 300 W
    assert values_of(power) == ["100.000000", "200.000000"]
    assert 'pod="alice",vgpu="0"' in power[0]
    assert values_of(util) == ["99", "30", "60"]
    assert values_of(memory) == ["900", "100", "500"]
    assert "pod=" not in util[0]
    assert "vgpu" not in "".join(util + memory)


def test_pods_without_work_share_by_replicas_case_gpu_44() -> None:
    assert values_of(split(shared(), POWER)) == ["150.000000", "150.000000"]
    assert values_of(split(shared(), "DCGM_FI_DEV_GPU_UTIL")) == ["99", "0", "0"]


def test_pods_on_a_gpu_whose_processes_nobody_sees_have_no_use() -> None:
    state = device(0, {GpuField.GPU_UTIL_PERCENT: 99}, processes=None)

    assert values_of(split(state, "DCGM_FI_DEV_GPU_UTIL")) == ["99"]


def test_energy_of_pods_counts_from_their_first_sight() -> None:
    watcher = Watcher()
    sharing = Sharing([ALICE, BOB], owner)
    for energy in (5_000_000, 9_000_000):
        state = device(0, {GpuField.ENERGY_UJ: energy}, processes=[busy(1, 75, 0), busy(2, 25, 0)])
        watcher.observe(snapshot(state), sharing.weights)

    lines = split(state, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter", watcher=watcher)

    assert values_of(lines) == ["3000", "1000"]


def test_other_values_are_whole_for_each_pod() -> None:
    state = device(0, {GpuField.TEMPERATURE_MC: 41_000}, processes=[])

    assert values_of(split(state, "DCGM_FI_DEV_GPU_TEMP")) == ["41", "41"]


def test_without_virtual_gpus_the_last_container_counts() -> None:
    holders = Holders([ALICE, BOB], NoJobs())

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=holders)

    assert 'pod="bob"' in line
    assert "vgpu" not in line


def test_gpus_nobody_holds_are_there_too_case_gpu_48() -> None:
    holders = Holders([ALICE], NoJobs())

    lines = samples(snapshot(*(device(i, {GpuField.POWER_UW: 0}) for i in range(8))), POWER, holders=holders)

    assert len(lines) == 8


def test_each_mig_instance_has_its_own_pod_case_gpu_33_50() -> None:
    pods = [PodHold("ns", f"p{gi}", "c", "GPU-0", f"MIG-{gi}-0") for gi in (1, 2)]
    divided = device(0, {GpuField.POWER_UW: 0}, instances=[instance(1), instance(2), instance(3)])

    lines = samples(snapshot(divided), POWER, holders=Holders(pods, NoJobs()))

    assert [re.findall(r'pod="(\w+)"', line) for line in lines] == [["p1"], ["p2"], []]


def test_pod_labels_are_cleaned_chosen_and_never_win_case_gpu_33() -> None:
    facts = PodFacts("uid-1", {"app.kubernetes.io/name": "x", "pod": "liar", "team": "y", "0day": "z"})
    options = PodOptions(with_labels=True, with_uid=True, allowed_labels=(re.compile("^app"), re.compile("^pod$")))
    holders = Holders([ALICE], NoJobs(), options, lambda _namespace, _pod: facts)

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=holders)

    assert line.endswith('app_kubernetes_io_name="x",container="c",namespace="ns",pod="alice",pod_uid="a"} 0.000000')


@pytest.mark.parametrize(("name", "clean"), [("a.b/c-d", "a_b_c_d"), ("0day", "_0day"), ("ä", "_"), ("", "_")])
def test_label_names(name: str, clean: str) -> None:
    assert label_name(name) == clean


@pytest.mark.parametrize("text", ["", "x", "f:0", "g:", "g:1-0", "g:a", "g:0+i:3", "i:-2", "g:0:1", "fg", "g:99999999"])
def test_choices_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="devices: "):
        parse_choice(text, "devices")


@pytest.mark.parametrize(("text", "ids"), [("g", None), ("g:-1", None), ("g:0,2-4", {0, 2, 3, 4}), (" i:7 ", {7})])
def test_choices(text: str, ids: set[int] | None) -> None:
    assert parse_choice(text, "devices").ids == ids


@pytest.mark.parametrize(
    "name", ["gpu", "UUID", "Hostname", "hpc_job", "err_code", "DCGM_FI_DRIVER_VERSION", "__name__"]
)
def test_a_pods_label_never_stands_beside_one_of_the_series_case_gpu_83_85(name: str) -> None:
    facts = PodFacts(labels={name: "liar"})
    options = PodOptions(with_labels=True)
    holders = Holders([ALICE], NoJobs(), options, lambda _namespace, _pod: facts)

    lines = samples(
        snapshot(device(0, {GpuField.POWER_UW: 0})),
        POWER,
        "DCGM_FI_DRIVER_VERSION, label",
        options=PageOptions(hostname="n"),
        holders=holders,
    )

    assert not [line for line in lines if "liar" in line]


def test_a_label_of_that_name_is_shown_behind_a_prefix() -> None:
    options = PodOptions(with_labels=True, prefix="k8s_")
    holders = Holders([ALICE], NoJobs(), options, lambda _namespace, _pod: PodFacts(labels={"gpu": "a100"}))

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=holders)

    assert 'k8s_gpu="a100"' in line


@pytest.mark.parametrize(
    ("choice", "absent"),
    [("f", ""), ("g", ""), ("i", ""), ("g:0", ""), ("g:0-2,99", "1, 2, 99"), ("i:0-1", ""), ("i:0-3", "2, 3")],
)
def test_what_was_chosen_and_is_not_here_is_named(choice: str, absent: str) -> None:
    found = snapshot(device(0, {}, instances=[instance(1), instance(2)]))

    assert absent_of(parse_choice(choice, "devices"), found) == absent


_NAMES = st.sampled_from(
    [
        *(
            "app",
            "a.b",
            "a-b",
            "a/b",
            "pod",
            "namespace",
            "container",
            "gpu",
            "UUID",
            "Hostname",
            "hostname",
            "hpc_job",
        ),
        *(
            "1x",
            "",
            "le",
            "quantile",
            "__name__",
            "job",
            "instance",
            "pod_uid",
            "dra_x",
            "vgpu",
            "DCGM_FI_X",
            "é",
            "xid",
        ),
    ]
)
_WORDS = st.sampled_from(["x", 'a"b', "a\nb", "a\\b", "", "é", "\0", "}{,="]) | st.text(max_size=5)


@given(
    st.dictionaries(_NAMES | st.text(max_size=4), _WORDS, max_size=12),
    st.sampled_from(["", "k8s_", "g", "Host", "G", "_", "dra_", "hpc_"]),
    st.booleans(),
    st.integers(0, 3),
)
def test_whatever_pods_are_labelled_no_label_stands_twice_case_gpu_53_case_gpu_82_case_gpu_83(
    labels: dict[str, str], prefix: str, virtual: bool, pods: int
) -> None:
    options = PodOptions(virtual_gpus=virtual, with_uid=True, with_labels=True, prefix=prefix)
    held = [PodHold("n", f"p{n}", "c", "GPU-0", replica=n, pod_uid="u", dra=(("dra_x", "c"),)) for n in range(pods)]
    holders = Holders(held, NoJobs(), options, lambda _namespace, _pod: PodFacts("u", labels))
    node = snapshot(device(0, {GpuField.POWER_UW: 1, GpuField.MEMORY_USED_BYTES: MEBI}))

    lines = samples(
        node, POWER, "DCGM_FI_DEV_FB_USED", options=PageOptions(hostname="h", virtual_gpus=virtual), holders=holders
    )

    for line in lines:
        names = re.findall(r'(?:[{,])([^=,{}"]+)="(?:[^"\\]|\\.)*"', line)
        assert len(names) == len(set(names)) >= 6
    assert list(text_string_to_metric_families("\n".join(lines) + "\n"))
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
