"""A library's process tells what is new; its parent, who merges, knows as much as if it had been told all."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kwhere.devices.gpu import GpuDevice, GpuInstance, GpuSnapshot, Vendor
from kwhere.devices.gpu_board import GpuBoard
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceReport, FieldReport, Opened
from kwhere.devices.gpu_told import Told

UUID = "GPU-1"
NAMES = [GpuField.POWER_UW, GpuField.ENERGY_UJ, GpuField.PROF_SM_RATIO, GpuField.MEMORY_USED_BYTES]
LAYOUTS = [(), ("MIG-1",), ("MIG-1", "MIG-2"), ("MIG-2",)]

quantities = st.dictionaries(
    st.sampled_from(NAMES), st.one_of(st.integers(0, 3), st.sampled_from([Absence.BLANK, Absence.ERROR])), min_size=1
)


def device(layout: tuple[str, ...]) -> GpuDevice:
    instances = tuple(GpuInstance(uuid, uuid, "1g.5gb", n, 0, 1) for n, uuid in enumerate(layout))
    return GpuDevice(UUID, 0, Vendor.NVIDIA, "A100", mig=True, instances=instances)


def fields(found: dict[GpuField, int | Absence]) -> FieldReport:
    return FieldReport(
        {name: value for name, value in found.items() if not isinstance(value, Absence)},
        {name: value for name, value in found.items() if isinstance(value, Absence)},
    )


@st.composite
def reports(draw: st.DrawFn) -> list[DeviceReport]:
    """Draw a device's life: readings, new layouts (instances are read with the next reading), and times it is lost."""
    made: list[DeviceReport] = []
    layout: tuple[str, ...] = ()
    for time_ns in range(1, draw(st.integers(2, 12))):
        group = draw(st.sampled_from(RateGroup))
        report = DeviceReport(UUID, group, time_ns, fields(draw(quantities)))
        if draw(st.integers(0, 5)) == 0:
            report = DeviceReport(UUID, group, 0, down="lost")
        elif draw(st.integers(0, 2)) == 0:
            layout = draw(st.sampled_from(LAYOUTS))
            report = replace(report, device=device(layout))
        elif group is RateGroup.FAST:
            report = replace(report, instances={uuid: fields(draw(quantities)) for uuid in layout})
        made.append(report)
    return made


def seen(told: list[DeviceReport]) -> list[GpuSnapshot]:
    board = GpuBoard(Vendor.NVIDIA)
    board.opened(Opened("550", "12", "12.4", (device(()),)))
    found = []
    for report in told:
        board.report(report)
        found.append(board.snapshot())
    return found


@given(reports())
def test_who_is_told_the_news_knows_all(life: list[DeviceReport]) -> None:
    told = Told()

    assert seen([told.news(report) for report in life]) == seen(life)


def test_what_stands_still_is_told_once() -> None:
    told = Told()
    report = DeviceReport(
        UUID, RateGroup.FAST, 1, FieldReport({GpuField.POWER_UW: 5}, {GpuField.ENERGY_UJ: Absence.BLANK})
    )
    told.news(report)

    again = told.news(replace(report, time_ns=2))

    assert (again.time_ns, again.fields) == (2, FieldReport())


def test_what_turns_from_known_to_missing_and_back_is_told_each_time() -> None:
    told = Told()
    known, missing = FieldReport({GpuField.POWER_UW: 5}), FieldReport({}, {GpuField.POWER_UW: Absence.ERROR})

    found = [told.news(DeviceReport(UUID, RateGroup.FAST, 1, one)).fields for one in (known, missing, known)]

    assert found == [known, missing, known]


def test_of_two_boards_in_one_place_the_newer_one_is_lost() -> None:
    old, new = (replace(device(()), uuid=uuid) for uuid in ("GPU-old", "GPU-new"))
    board = GpuBoard(Vendor.NVIDIA, [old, new])

    board.opened(Opened("550", "12", "12.4", (), {0: "lost"}))

    assert {state.device.uuid: state.reason for state in board.snapshot().devices} == {
        "GPU-old": "absent",
        "GPU-new": "lost",
    }
