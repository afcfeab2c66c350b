"""Lines of a GPU library's process: records, or an error that says where."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.devices.gpu import GpuDevice, GpuInstance, GpuProcess, LinkReadings, ProcessKind, Vendor, pci_address
from kwhere.devices.gpu_child import _plain
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceReport, Failed, FieldReport, Message, Opened, XidEvent
from kwhere.devices.gpu_messages import read_message

INSTANCE = GpuInstance("MIG-1", "A100 MIG 1g.5gb", "1g.5gb", 7, 0, 1, 14, 5 << 30)
DEVICE = GpuDevice("GPU-1", 0, Vendor.NVIDIA, "A100", 0, "00000000:07:00.0", mig=True, instances=(INSTANCE,))


@pytest.mark.parametrize(
    "message",
    [
        Opened("550", "12.550", "12.4", (DEVICE,), {1: "lost"}),
        Failed("driver", "not loaded"),
        XidEvent("GPU-1", 79, 1),
        DeviceReport(
            "GPU-1",
            RateGroup.FAST,
            5,
            FieldReport({GpuField.POWER_UW: 1, GpuField.PROF_SM_RATIO: 0.5}, {GpuField.ENERGY_UJ: Absence.BLANK}),
            instances={"MIG-1": FieldReport()},
            processes=(GpuProcess(1, ProcessKind.MPS, None, 7, 0),),
            links=(LinkReadings(0, True, {GpuField.NVLINK_TX_BYTES: 1}),),
            device=DEVICE,
        ),
    ],
    ids=lambda message: message.kind,
)
def test_what_was_written_is_read(message: Message) -> None:
    line = json.dumps(message, default=_plain).encode()

    assert read_message(line) == message


@given(
    st.one_of(st.binary(max_size=200), st.from_regex(rb'\{"kind":"(device|opened|failed|xid)"[^}]*\}', fullmatch=True))
)
def test_any_bytes_are_a_record_or_an_error(line: bytes) -> None:
    with contextlib.suppress(SourceError):
        read_message(line)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("00000000:41:00.0", "0000:41:00.0"),
        ("0000:41:00.0", "0000:41:00.0"),
        ("41:00.0", "0000:41:00.0"),
        ("00000001:C5:00.0", "0001:c5:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("nvidia0", "nvidia0"),
        ("", ""),
    ],
)
def test_pci_addresses_have_one_form(written: str, form: str) -> None:
    assert pci_address(written) == form


@given(st.text(max_size=40))
def test_any_text_has_a_form_that_stays(text: str) -> None:
    assert pci_address(pci_address(text)) == pci_address(text)
