"""The full reading of one unit out of its cgroups' files."""

from collections.abc import Iterable
from dataclasses import fields

from kwhere.core.errors import NoData, Unavailable
from kwhere.discovery.unit_source import UnitDetail
from kwhere.kernel.cgroup_detail import CgroupDetail, DetailFiles
from kwhere.kernel.cgroups import CgroupLayout, Hierarchy, descend
from kwhere.kernel.hostfs import HostFS, KeptFile

_LIST_AGAIN_NS = 60_000_000_000
_COPIED = tuple(
    name
    for name in (field.name for field in fields(UnitDetail))
    if name in {field.name for field in fields(CgroupDetail)} and name != "pressure_us"
)


class UnitFiles:
    """The files of one member cgroup of a unit, its processes counted over all directories below it."""

    def __init__(self, fs: HostFS, layout: CgroupLayout, hierarchy: Hierarchy, path: str) -> None:
        self._fs = fs
        self._hierarchy = hierarchy
        self._path = path
        self._detail = DetailFiles(fs, layout, path)
        self._process_lists: list[KeptFile] = []
        self._listed_ns: int | None = None
        self.errors = 0
        """Files that held nonsense, so far."""

    def read(self, now_ns: int) -> UnitDetail:
        """Return the reading. Raises NoData if the cgroup is gone."""
        try:
            detail, errors = self._detail.read()
        except Unavailable as error:
            raise NoData(str(error)) from error
        self.errors += len(errors)
        values = {name: getattr(detail, name) for name in _COPIED}
        return UnitDetail(**values, pressure_us=detail.pressure_us, processes=self._processes(now_ns))

    def close(self) -> None:
        """Give back the descriptors."""
        self._detail.close()
        self._drop_lists()

    def _processes(self, now_ns: int) -> int | None:
        """Return the number of processes; directories made since the last minute's listing are not in it."""
        if self._listed_ns is None or now_ns - self._listed_ns >= _LIST_AGAIN_NS:
            self._drop_lists()
            for below in descend(self._fs, self._hierarchy, self._path):
                try:
                    self._process_lists.append(self._fs.keep(self._hierarchy.file(below, "cgroup.procs")))
                except Unavailable:
                    continue
            self._listed_ns = now_ns
        count: int | None = None
        for kept in self._process_lists:
            try:
                count = (count or 0) + kept.read().count(b"\n")
            except Unavailable:  # a step that ended, or a threaded cgroup
                self._listed_ns = None
        return count

    def _drop_lists(self) -> None:
        for kept in self._process_lists:
            kept.close()
        self._process_lists = []


def add_up(details: Iterable[UnitDetail]) -> UnitDetail:
    """Return the sum over the members of a unit; what no member tells stays None."""
    all_details = tuple(details)
    if len(all_details) == 1:
        return all_details[0]
    sums: dict[str, int | None] = {}
    for name in (field.name for field in fields(UnitDetail) if field.name != "pressure_us"):
        known = [value for value in (getattr(detail, name) for detail in all_details) if value is not None]
        sums[name] = sum(known) if known else None
    pressure: dict[tuple[str, str], int] = {}
    for detail in all_details:
        for key, value in detail.pressure_us.items():
            pressure[key] = max(pressure.get(key, 0), value)  # stalls of members overlap in time: no sum
    return UnitDetail(**sums, pressure_us=pressure)
