"""What one look at the GPUs does not tell: events within a window, rates of link counters, energy of each pod."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.dcgm.entities import LinkRates
from kwhere.devices.gpu import DeviceState, GpuSnapshot
from kwhere.devices.gpu_fields import GpuField

CLOCK_EVENTS: Mapping[int, str] = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of NVML's reasons, as the exporter names them."""
REPLAY_WINDOW_NS = 60 * NANOSECONDS_PER_SECOND
_LINK_COUNTERS = (GpuField.NVLINK_TX_BYTES, GpuField.NVLINK_RX_BYTES)

Weights = Callable[[DeviceState], Mapping[str, float]]
"""Shares of a device's power by pod, summing to 1; empty where no pod holds it."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Lengths of time in nanoseconds."""

    xid_ns: int = 300 * NANOSECONDS_PER_SECOND
    clock_events_ns: int = 300 * NANOSECONDS_PER_SECOND
    sample_ns: int = 30 * NANOSECONDS_PER_SECOND
    """Between two samples of the clocks' event reasons."""


@dataclass(slots=True)
class _Device:
    """What is remembered of one device."""

    xids: dict[tuple[int, int | None], int] = field(default_factory=dict)
    xid_events: list[tuple[int, int, int | None]] = field(default_factory=list)
    """When, which XID, which GPU instance."""
    masks: deque[tuple[int, int]] = field(default_factory=deque)
    events: Counter[int] = field(default_factory=Counter)
    """Samples in the window by bit."""
    sampled_ns: int | None = None
    links: dict[tuple[GpuField, int | None], int] = field(default_factory=dict)
    links_ns: int = 0
    rates: LinkRates = field(default_factory=dict)
    replays: deque[tuple[int, int]] = field(default_factory=deque)
    links_seen_up: set[int] = field(default_factory=set)
    energy_uj: int | None = None
    pod_uj: dict[str, float] = field(default_factory=dict)


class Watcher:
    """Looks at snapshots as they pass; any thread. What it tells is of the last look."""

    def __init__(
        self,
        windows: Windows = Windows(),
        clock_ns: Callable[[], int] = time.monotonic_ns,
        utc_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._windows = windows
        self._clock_ns = clock_ns
        self._utc_ns = utc_ns
        self._lock = Lock()
        self._devices: dict[str, _Device] = {}

    def observe(self, snapshot: GpuSnapshot, weights: Weights | None = None) -> None:
        """Take in what the GPUs show now."""
        now_ns = self._clock_ns()
        with self._lock:
            for state in snapshot.devices:
                is_new = state.device.uuid not in self._devices
                known = self._devices.setdefault(state.device.uuid, _Device())
                self._take_xids(known, state, now_ns, is_new=is_new)
                self._forget(known, now_ns)
                if state.up and state.readings is not None:
                    self._take_mask(known, state, now_ns)
                    _take_links(known, state)
                    _take_replays(known, state)
                    _take_energy(known, state, weights)

    def rates(self, uuid: str) -> LinkRates:
        """Return bytes per second of the NVLink counters; empty until two readings are there."""
        with self._lock:
            known = self._devices.get(uuid)
            return dict(known.rates) if known else {}

    def xid_counts(self, uuid: str, gpu_instance: int | None) -> Mapping[int, int]:
        """Return how often each XID came within the window: of a GPU instance its own and the whole device's."""
        with self._lock:
            known = self._devices.get(uuid)
            return Counter(
                xid
                for _, xid, raised_by in (known.xid_events if known else ())
                if gpu_instance is None or raised_by in (None, gpu_instance)
            )

    def clock_events(self, uuid: str) -> Mapping[str, int] | None:
        """Return in how many samples of the window each event stood; None before the first sample."""
        with self._lock:
            known = self._devices.get(uuid)
            if known is None or not known.masks:
                return None
            return {CLOCK_EVENTS[bit]: count for bit, count in sorted(known.events.items()) if count > 0}

    def replays(self, uuid: str) -> int | None:
        """Return PCIe replays of the last minute; None before two readings."""
        with self._lock:
            known = self._devices.get(uuid)
            if known is None or len(known.replays) < 2:
                return None
            return known.replays[-1][1] - known.replays[0][1]

    def fallen_links(self, state: DeviceState) -> list[int]:
        """Return the NVLinks that are down and were up: those that never were may have no other end."""
        with self._lock:
            known = self._devices.get(state.device.uuid)
            seen = known.links_seen_up if known else set()
            return [one.link for one in state.links if one.up is False and one.link in seen]

    def pod_energy_mj(self, uuid: str, pod: str) -> int | None:
        """Return a pod's share of the device's energy since it was first seen; over pods it sums to the device's."""
        with self._lock:
            known = self._devices.get(uuid)
            found = known.pod_uj.get(pod) if known else None
            return None if found is None else int(found) // 1000

    def _take_xids(self, known: _Device, state: DeviceState, now_ns: int, *, is_new: bool) -> None:
        """Take in XIDs that came since the last look. Of those before the first, only when each came last is known."""
        for one in state.xids:
            key = (one.xid, one.gpu_instance)
            fresh = max(0, one.count - known.xids.get(key, 0))
            known.xids[key] = one.count
            came_ns = now_ns - max(0, self._utc_ns() - one.last_utc_ns)
            known.xid_events += [(came_ns, one.xid, one.gpu_instance)] * (min(fresh, 1) if is_new else fresh)

    def _take_mask(self, known: _Device, state: DeviceState, now_ns: int) -> None:
        assert state.readings is not None
        mask = state.readings.integer(GpuField.CLOCK_EVENT_REASONS)
        if mask is None or (known.sampled_ns is not None and now_ns - known.sampled_ns < self._windows.sample_ns):
            return
        known.sampled_ns = now_ns
        known.masks.append((now_ns, mask))
        known.events.update(bit for bit in CLOCK_EVENTS if mask & bit)

    def _forget(self, known: _Device, now_ns: int) -> None:
        if known.xid_events:
            oldest_ns = now_ns - self._windows.xid_ns
            known.xid_events = [event for event in known.xid_events if event[0] >= oldest_ns]
        while known.masks and known.masks[0][0] < now_ns - self._windows.clock_events_ns:
            _, mask = known.masks.popleft()
            known.events.subtract(bit for bit in CLOCK_EVENTS if mask & bit)


def _take_links(known: _Device, state: DeviceState) -> None:
    assert state.readings is not None
    known.links_seen_up |= {one.link for one in state.links if one.up}
    read_ns = state.readings.medium_ns
    if read_ns == known.links_ns:
        return
    counters: dict[tuple[GpuField, int | None], int] = {
        (of, one.link): int(one.values[of]) for one in state.links for of in _LINK_COUNTERS if of in one.values
    }
    counters |= {(of, None): value for of in _LINK_COUNTERS if (value := state.readings.integer(of)) is not None}
    seconds = (read_ns - known.links_ns) / NANOSECONDS_PER_SECOND
    known.rates = {
        key: (value - known.links[key]) / seconds
        for key, value in counters.items()
        if known.links_ns and seconds > 0 and value >= known.links.get(key, value + 1)
    }
    known.links, known.links_ns = counters, read_ns


def _take_replays(known: _Device, state: DeviceState) -> None:
    assert state.readings is not None
    value, read_ns = state.readings.integer(GpuField.PCIE_REPLAYS), state.readings.medium_ns
    if value is None or (known.replays and known.replays[-1][0] == read_ns):
        return
    if known.replays and value < known.replays[-1][1]:  # the driver began anew
        known.replays.clear()
    known.replays.append((read_ns, value))
    while known.replays[0][0] < read_ns - REPLAY_WINDOW_NS:
        known.replays.popleft()


def _take_energy(known: _Device, state: DeviceState, weights: Weights | None) -> None:
    assert state.readings is not None
    value = state.readings.integer(GpuField.ENERGY_UJ)
    before, known.energy_uj = known.energy_uj, value
    if weights is None or value is None:
        return
    grown = 0 if before is None or value < before else value - before
    shares = weights(state)
    known.pod_uj = {pod: known.pod_uj.get(pod, 0.0) + grown * share for pod, share in shares.items()}
