"""What changes slowly on AMD's GPUs: temperatures, clocks, links, errors, limits, by the driver's text files."""

import re
from collections.abc import Iterator, Mapping

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.graphics.amd_inventory import AmdCard
from kwhere.graphics.field_sink import FieldSink
from kwhere.kernel.amdgpu import DpmClock, RasCounts, parse_dpm, parse_ras
from kwhere.kernel.amdgpu_metrics import GpuMetrics
from kwhere.kernel.drm import names_in, number_of, word_of
from kwhere.kernel.hostfs import HostFS

_MEGA = 1_000_000
_MILLI = 1000
_PWM = 255
_PERCENT = 100
_SPEED = re.compile(r"([0-9]{1,3})(?:\.([0-9]))? GT/s.*", re.ASCII)
_GENERATIONS: Mapping[int, int] = {25: 1, 50: 2, 80: 3, 160: 4, 320: 5, 640: 6}
"""By speed in tenths of a gigatransfer per second."""
_SENSORS = range(1, 9)
_BLOCK = re.compile(r"[a-z0-9_]{1,32}_err_count", re.ASCII)


def put_state(fs: HostFS, card: AmdCard, table: GpuMetrics | Unavailable, sink: FieldSink) -> None:
    """Put temperatures, clocks, links and errors: by the driver's files, else by the board's table."""
    known = table if isinstance(table, GpuMetrics) else GpuMetrics(0)
    place = card.card.place
    _put_temperatures(fs, card.hwmon, known, sink)
    _put_clocks(fs, card, known, sink)
    replays = number_of(fs, f"{place}/pcie_replay_count")
    sink.put(GpuField.PCIE_REPLAYS, known.pcie_replays if replays is None else replays)
    put_link(fs, place, sink)
    sink.put(GpuField.PCIE_LINK_WIDTH, known.pcie_width or None)
    sink.put(GpuField.PCIE_LINK_GEN, _GENERATIONS.get(known.pcie_speed_tenth_gts or 0))
    _put_errors(fs, place, sink)
    pwm = number_of(fs, f"{card.hwmon}/pwm1") if card.hwmon else None
    sink.put(GpuField.FAN_PERCENT, None if pwm is None else pwm * _PERCENT // _PWM)


def put_limits(fs: HostFS, card: AmdCard, sink: FieldSink) -> None:
    """Put power limits, highest clocks and the temperatures at which the board slows down or stops. 0 is no limit."""
    hwmon = card.hwmon
    for name, file in (
        (GpuField.POWER_LIMIT_UW, "power1_cap"),
        (GpuField.POWER_LIMIT_ENFORCED_UW, "power1_cap"),
        (GpuField.POWER_LIMIT_DEFAULT_UW, "power1_cap_default"),
        (GpuField.POWER_LIMIT_MAX_UW, "power1_cap_max"),
    ):
        sink.put(name, (number_of(fs, f"{hwmon}/{file}") or None) if hwmon else None)
    sink.put(GpuField.POWER_LIMIT_MIN_UW, number_of(fs, f"{hwmon}/power1_cap_min") if hwmon else None)
    labels = _labels(fs, hwmon)
    hottest = labels.get("junction") or labels.get("edge")
    sink.put(GpuField.TEMPERATURE_SLOWDOWN_MC, number_of(fs, f"{hottest}_crit") if hottest else None)
    sink.put(GpuField.TEMPERATURE_SHUTDOWN_MC, number_of(fs, f"{hottest}_emergency") if hottest else None)
    memory = labels.get("mem")
    sink.put(GpuField.MEMORY_TEMPERATURE_MAX_MC, number_of(fs, f"{memory}_crit") if memory else None)
    sink.put(GpuField.MAX_SM_CLOCK_HZ, _dpm(fs, card, "sclk").max_hz)
    sink.put(GpuField.MAX_MEMORY_CLOCK_HZ, _dpm(fs, card, "mclk").max_hz)
    speed, width = _link(fs, card.card.place, "max")
    sink.put(GpuField.PCIE_MAX_LINK_GEN, speed)
    sink.put(GpuField.PCIE_MAX_LINK_WIDTH, width)


def put_link(fs: HostFS, place: str, sink: FieldSink) -> None:
    """Put speed and width of the PCI link as the kernel's PCI layer tells them."""
    speed, width = _link(fs, place, "current")
    if speed is not None:
        sink.put(GpuField.PCIE_LINK_GEN, speed)
    if width is not None:
        sink.put(GpuField.PCIE_LINK_WIDTH, width)


def _put_temperatures(fs: HostFS, hwmon: str, table: GpuMetrics, sink: FieldSink) -> None:
    labels = _labels(fs, hwmon)
    found = {label: number_of(fs, f"{path}_input") for label, path in labels.items()}
    edge = _first(found.get("edge"), _milli(table.temperature_edge_c))
    junction = _first(found.get("junction"), _milli(table.temperature_hotspot_c))
    sink.put(GpuField.TEMPERATURE_MC, _first(edge, junction))
    sink.put(GpuField.TEMPERATURE_HOTSPOT_MC, junction)
    sink.put(GpuField.MEMORY_TEMPERATURE_MC, _first(found.get("mem"), _milli(table.temperature_memory_c)))


def _put_clocks(fs: HostFS, card: AmdCard, table: GpuMetrics, sink: FieldSink) -> None:
    labelled = {
        word_of(fs, f"{card.hwmon}/freq{number}_label"): number_of(fs, f"{card.hwmon}/freq{number}_input")
        for number in (1, 2)
        if card.hwmon
    }
    graphics = _first(labelled.get("sclk"), _dpm(fs, card, "sclk").current_hz, _mega(table.gfx_clock_mhz))
    memory = _first(labelled.get("mclk"), _dpm(fs, card, "mclk").current_hz, _mega(table.memory_clock_mhz))
    sink.put(GpuField.SM_CLOCK_HZ, graphics)
    sink.put(GpuField.GRAPHICS_CLOCK_HZ, graphics)
    sink.put(GpuField.MEMORY_CLOCK_HZ, memory)


def _put_errors(fs: HostFS, place: str, sink: FieldSink) -> None:
    """Put the sums over the blocks that count errors; a board without RAS tells none, which is not 0."""
    counts = list(_ras(fs, f"{place}/ras"))
    for name, kind in ((GpuField.ECC_SBE_VOLATILE, "corrected"), (GpuField.ECC_DBE_VOLATILE, "uncorrected")):
        known = [value for count in counts if (value := getattr(count, kind)) is not None]
        sink.put(name, sum(known) if known else None, Absence.UNSUPPORTED)


def _ras(fs: HostFS, place: str) -> Iterator[RasCounts]:
    for name in names_in(fs, place):
        if _BLOCK.fullmatch(name) is None:
            continue
        try:
            yield parse_ras(fs.read_text(f"{place}/{name}"), f"{place}/{name}")
        except (Unavailable, SourceError):
            continue


def _dpm(fs: HostFS, card: AmdCard, clock: str) -> DpmClock:
    path = f"{card.card.place}/pp_dpm_{clock}"
    try:
        return parse_dpm(fs.read_text(path), path)
    except (Unavailable, SourceError):
        return DpmClock(None, None)


def _labels(fs: HostFS, hwmon: str) -> dict[str, str]:
    """Return the path of each sensor, without its ending, by label: `edge`, `junction`, `mem`."""
    if not hwmon:
        return {}
    found = {word_of(fs, f"{hwmon}/temp{number}_label"): f"{hwmon}/temp{number}" for number in _SENSORS}
    found.pop("", None)
    return found or {"edge": f"{hwmon}/temp1"}  # drivers before Linux 5.3 have one sensor, without a label


def _link(fs: HostFS, place: str, kind: str) -> tuple[int | None, int | None]:
    told = _SPEED.fullmatch(word_of(fs, f"{place}/{kind}_link_speed"))
    tenths = int(told[1]) * 10 + int(told[2] or 0) if told is not None else 0
    return _GENERATIONS.get(tenths), number_of(fs, f"{place}/{kind}_link_width") or None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _milli(degrees: int | None) -> int | None:
    return None if degrees is None else degrees * _MILLI


def _mega(clock_mhz: int | None) -> int | None:
    return None if clock_mhz is None else clock_mhz * _MEGA
