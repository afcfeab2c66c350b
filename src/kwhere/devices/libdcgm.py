"""The few calls of NVIDIA's libdcgm that tell activity, by ctypes. Lives in a child process of its own.

Layouts after dcgm_agent.h and dcgm_structs.h of DCGM 2 to 4: `dcgmConnectV2Params_v2`, `dcgmFieldValue_v2`,
`dcgmMigHierarchy_v2`; a version word holds a structure's size and number, so that a library that has others refuses.
"""

import ctypes
import time
from collections.abc import Iterator, Sequence

from kwhere.devices.dcgm_page import activity_number
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.gpu_library import LibraryError

LIBRARIES = ("libdcgm.so.4", "libdcgm.so.3", "libdcgm.so.2", "libdcgm.so")
FIELDS: dict[int, GpuField] = {
    1001: GpuField.PROF_GRAPHICS_RATIO,
    1002: GpuField.PROF_SM_RATIO,
    1003: GpuField.PROF_SM_OCCUPANCY_RATIO,
    1004: GpuField.PROF_TENSOR_RATIO,
    1005: GpuField.PROF_DRAM_RATIO,
    1006: GpuField.PROF_FP64_RATIO,
    1007: GpuField.PROF_FP32_RATIO,
    1008: GpuField.PROF_FP16_RATIO,
    1009: GpuField.PROF_PCIE_TX_BYTES_PER_SECOND,
    1010: GpuField.PROF_PCIE_RX_BYTES_PER_SECOND,
    1011: GpuField.PROF_NVLINK_TX_BYTES_PER_SECOND,
    1012: GpuField.PROF_NVLINK_RX_BYTES_PER_SECOND,
}
WATCH_US = 10_000_000
STALE_US = 60_000_000
_KEEP_SECONDS, _KEEP_SAMPLES = 60.0, 2
_UUID_FIELD = 54
_LIVE_DATA = 1
_GPU, _GPU_INSTANCE = 1, 4
"""dcgm_field_entity_group_t."""
_ALL_GPUS, _ALL_INSTANCES = 0x7FFFFFFF, 0x7FFFFFFD
_MAX_DEVICES, _MAX_HIERARCHY = 32, 32 * 14
_CONNECT_MS = 5000
_DOUBLE, _INT64 = ord("d"), ord("i")


class _ConnectParams(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("persist_after_disconnect", ctypes.c_uint),
        ("timeout_ms", ctypes.c_uint),
        ("address_is_unix_socket", ctypes.c_uint),
    ]


class _Value(ctypes.Union):
    _fields_ = [
        ("i64", ctypes.c_int64),
        ("dbl", ctypes.c_double),
        ("text", ctypes.c_char * 256),
        ("blob", ctypes.c_byte * 4096),
    ]


class _FieldValue(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("entity_group", ctypes.c_uint),
        ("entity", ctypes.c_uint),
        ("field", ctypes.c_ushort),
        ("type", ctypes.c_ushort),
        ("status", ctypes.c_int),
        ("unused", ctypes.c_uint),
        ("time_us", ctypes.c_int64),
        ("value", _Value),
    ]


class _Entity(ctypes.Structure):
    _fields_ = [("group", ctypes.c_uint), ("number", ctypes.c_uint)]


class _HierarchyEntry(ctypes.Structure):
    _fields_ = [
        ("entity", _Entity),
        ("parent", _Entity),
        ("gpu_uuid", ctypes.c_char * 128),
        ("nvml_index", ctypes.c_uint),
        ("nvml_instance", ctypes.c_uint),
        ("nvml_compute_instance", ctypes.c_uint),
        ("nvml_profile", ctypes.c_uint),
        ("slices", ctypes.c_uint),
    ]


class _Hierarchy(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("entries", _HierarchyEntry * _MAX_HIERARCHY),
    ]


Place = tuple[str, int | None]
"""A device's uuid and the GPU instance, None for the whole device."""


class HostEngine:
    """A connection to a running nv-hostengine that watches activity of every GPU and GPU instance."""

    def __init__(self, library: str, address: str) -> None:
        """Connect and watch. Raises LibraryError (absent, refused, unsupported)."""
        self._dcgm = _load(library)
        self._handle = ctypes.c_size_t()
        parameters = _ConnectParams(_version(_ConnectParams, 2), 0, _CONNECT_MS, 0)
        if self._dcgm.dcgmInit() or self._dcgm.dcgmConnect_v2(
            address.encode(), ctypes.byref(parameters), ctypes.byref(self._handle)
        ):
            raise LibraryError("refused", f"libdcgm: no nv-hostengine answers at {address}")
        self._watched = [field for field in FIELDS if self._watch(field)]
        if not self._watched:
            raise LibraryError("unsupported", "libdcgm: nv-hostengine watches no activity on these GPUs")

    def read(self) -> dict[Place, dict[GpuField, int | float]]:
        """Return what is known now of each GPU and instance; nothing of what is older than a minute.

        Raises LibraryError (ended) where nv-hostengine does not answer any more.
        """
        found: dict[Place, dict[GpuField, int | float]] = {}
        places = self._places()
        for value in self._latest(list(places), self._watched, 0):
            name, number = FIELDS.get(value.field), _number(value)
            if name is None or number is None:
                continue
            known = activity_number(name, number)
            if known is not None:
                found.setdefault(places[value.entity_group, value.entity], {})[name] = known
        return found

    def close(self) -> None:
        """Disconnect; what was watched for us ends with it."""
        self._dcgm.dcgmDisconnect(self._handle)
        self._dcgm.dcgmShutdown()

    def _watch(self, field: int) -> bool:
        """Have one field watched; a GPU without it takes no other field along."""
        group = ctypes.c_size_t()
        name = f"kwhere-{field}-{time.monotonic_ns()}".encode()
        if self._dcgm.dcgmFieldGroupCreate(self._handle, 1, (ctypes.c_ushort * 1)(field), name, ctypes.byref(group)):
            return False
        answers = [
            self._dcgm.dcgmWatchFields(
                self._handle,
                ctypes.c_size_t(entities),
                group,
                ctypes.c_longlong(WATCH_US),
                ctypes.c_double(_KEEP_SECONDS),
                ctypes.c_int(_KEEP_SAMPLES),
            )
            for entities in (_ALL_GPUS, _ALL_INSTANCES)
        ]
        return 0 in answers

    def _places(self) -> dict[tuple[int, int], Place]:
        """Return who each entity is: GPUs by their uuid, instances by their parent's uuid and NVML's id."""
        numbers, count = (ctypes.c_uint * _MAX_DEVICES)(), ctypes.c_int()
        if self._dcgm.dcgmGetAllDevices(self._handle, numbers, ctypes.byref(count)):
            raise LibraryError("ended", "libdcgm: nv-hostengine does not answer any more")
        gpus = [(_GPU, numbers[place]) for place in range(min(count.value, _MAX_DEVICES))]
        uuids = {
            (value.entity_group, value.entity): value.value.text.decode("ascii", "replace")
            for value in self._latest(gpus, [_UUID_FIELD], _LIVE_DATA)
            if value.status == 0
        }
        found: dict[tuple[int, int], Place] = {
            entity: (uuid, None) for entity, uuid in uuids.items() if uuid.startswith("GPU-")
        }
        hierarchy = _Hierarchy(_version(_Hierarchy, 2))
        if self._dcgm.dcgmGetGpuInstanceHierarchy(self._handle, ctypes.byref(hierarchy)):
            return found
        for entry in hierarchy.entries[: min(hierarchy.count, _MAX_HIERARCHY)]:
            parent = found.get((entry.parent.group, entry.parent.number))
            if entry.entity.group == _GPU_INSTANCE and parent is not None:
                found[entry.entity.group, entry.entity.number] = (parent[0], entry.nvml_instance)
        return found

    def _latest(self, entities: Sequence[tuple[int, int]], fields: Sequence[int], flags: int) -> Iterator[_FieldValue]:
        if not entities or not fields:
            return
        values = (_FieldValue * (len(entities) * len(fields)))()
        for value in values:
            value.version = _version(_FieldValue, 2)
        if self._dcgm.dcgmEntitiesGetLatestValues(
            self._handle,
            (_Entity * len(entities))(*(_Entity(*one) for one in entities)),
            ctypes.c_uint(len(entities)),
            (ctypes.c_ushort * len(fields))(*fields),
            ctypes.c_uint(len(fields)),
            ctypes.c_uint(flags),
            values,
        ):
            raise LibraryError("ended", "libdcgm: nv-hostengine does not answer any more")
        yield from values


def _number(value: _FieldValue) -> float | None:
    """Return a field's number; None where it has none, or one that is too old."""
    if value.status or time.time_ns() // 1000 - value.time_us > STALE_US:
        return None
    if value.type == _DOUBLE:
        return float(value.value.dbl)
    return float(value.value.i64) if value.type == _INT64 else None


def _version(structure: type[ctypes.Structure], number: int) -> int:
    """Return MAKE_DCGM_VERSION."""
    return ctypes.sizeof(structure) | number << 24


def _load(library: str) -> ctypes.CDLL:
    for name in (library,) if library else LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise LibraryError("absent", f"{library or LIBRARIES[0]}: not found")
