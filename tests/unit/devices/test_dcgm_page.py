"""Pages of foreign dcgm-exporters: of every release, with its words for "not known", and broken ones."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwhere.devices.dcgm_page import activity_value, read_activity
from kwhere.devices.gpu_fields import GpuField

GPU = "GPU-a0000000-1111-2222-3333-000000000000"
HEAD = f'gpu="0",UUID="{GPU}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB"'
MIG = ',GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"'
TAIL = ',Hostname="n1",DCGM_FI_DRIVER_VERSION="550.54.15"'
GRAPHICS = GpuField.PROF_GRAPHICS_RATIO


def line(name: str, value: str, more: str = "") -> str:
    return f"{name}{{{HEAD}{more}{TAIL}}} {value}\n"


def test_a_gpu_and_its_instances_are_told_apart() -> None:
    page = (
        "# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio\n# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge\n"
        + line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.750000", MIG)
        + line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.250000")
        + line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.100000", MIG)
        + line("DCGM_FI_PROF_PCIE_TX_BYTES", "1234567")
        + line("DCGM_FI_DEV_POWER_USAGE", "200.0")
    )

    assert read_activity(page) == {
        (GPU, 7): {GRAPHICS: 0.75, GpuField.PROF_TENSOR_RATIO: 0.1},
        (GPU, None): {GRAPHICS: 0.25, GpuField.PROF_PCIE_TX_BYTES_PER_SECOND: 1234567},
    }


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(line("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "0.5"), id="a name of DCGM 4.6"),
        pytest.param(f'dcgm_fi_prof_gr_engine_active{{gpu="0",uuid="{GPU}",device="nvidia0"}} 0.5\n', id="1.x"),
        pytest.param(line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5", ',pod="a"b",x="y\\z"'), id="case_gpu_83 not escaped"),
        pytest.param(
            line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5", ',hpc_job="1"')
            + line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5", ',hpc_job="2"'),
            id="a line for each job",
        ),
        pytest.param(line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5").replace("\n", "\r\n"), id="other line ends"),
        pytest.param(line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5 1795000000000"), id="with a time"),
        pytest.param(
            "<html>oops\n" + line("DCGM_FI_PROF_SM_ACTIVE", "ERROR - FAILED TO CONVERT TO STRING")
            + line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5"),
            id="case_gpu_4 beside text",
        ),
        pytest.param(
            line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5", ',pod="x",UUID="GPU-b"')
            + line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.9", ',pod="x",UUID="GPU-b"'),
            id="a label that calls itself UUID",
        ),
    ],
)  # fmt: skip
def test_every_release_is_read(page: str) -> None:
    assert read_activity(page) == {(GPU, None): {GRAPHICS: 0.5}}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param("0", 0.0, id="a measured zero"),
        pytest.param("0.999999", 0.999999, id="nearly all"),
        pytest.param("1.5", 1.0, id="case_gpu_8"),
        pytest.param("55", None, id="a percentage"),
        pytest.param("140737488355328.0", None, id="blank"),
        pytest.param("140737488355330", None, id="not supported"),
        pytest.param("140737488355331.000000", None, id="not permitted"),
        pytest.param("9223372036854775794", None, id="case_gpu_1"),
        pytest.param("9.223372036854776e+18", None, id="case_gpu_1 as Prometheus rounds it"),
        pytest.param("2147483634", None, id="not supported, 32 bits"),
        pytest.param("-0.1", None, id="below 0"),
        pytest.param("NaN", None, id="no number"),
        pytest.param("+Inf", None, id="infinite"),
        pytest.param("1e999", None, id="overflow"),
        pytest.param("", None, id="nothing"),
        pytest.param("1-1", None, id="no number of these letters"),
    ],
)
def test_words_for_not_known(value: str, found: float | None) -> None:
    assert activity_value(GRAPHICS, value) == found
    assert read_activity(line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", value)) == (
        {} if found is None else {(GPU, None): {GRAPHICS: found}}
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [("2147483634", 2147483634), ("9223372036854775792", None), ("140737488355328", None), ("12.6", 13)],
)
def test_a_rate_may_look_like_a_small_sentinel_case_gpu_5(value: str, found: int | None) -> None:
    assert activity_value(GpuField.PROF_PCIE_RX_BYTES_PER_SECOND, value) == found


@given(st.text() | st.from_regex(r"DCGM_FI_PROF_SM_ACTIVE\{.*\} .*"))
@example(line("DCGM_FI_PROF_SM_ACTIVE", "0.5")[:-3])
def test_any_page_is_activity_or_nothing(page: str) -> None:
    for values in read_activity(page).values():
        for name, value in values.items():
            assert value >= 0
            assert value <= 1 or not name.value.endswith("_ratio")
