"""Sources of who holds a GPU that are files of this node: prolog, device rules, environments, OAR."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery import (
    gpu_device_rules,
    gpu_environ,
    gpu_oar,
    gpu_prolog,
    kubernetes,
    libvirt,
    oar,
    process_units,
    systemd,
)
from kwhere.discovery.facts import is_there, read_small
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, Hold, is_job_manager
from kwhere.discovery.gres_conf import GresBits, gres_bits, parse_gres_conf
from kwhere.discovery.slurm_notes import is_trusted, read_notes
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import CgroupLayout
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_environment

_PROCESSES_ASKED = 64
"""Sessions that were taken into a job may come first, and know nothing of its GPUs."""
_YOUNG_NS = 120 * NANOSECONDS_PER_SECOND
_AGAIN_NS = 60 * NANOSECONDS_PER_SECOND
_NOT_ASKED = frozenset({libvirt.MANAGER, systemd.MANAGER, systemd.SESSION, process_units.MANAGER})
"""Managers whose units' environments say nothing of what they were given."""


class HoldFinder(Protocol):
    """One source, or several behind one door. Runs on a thread of its own, one look at a time."""

    @property
    def sources(self) -> tuple[ClaimSource, ...]:
        """What it may speak for."""
        ...

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who holds what. Raises Unavailable (absent: not on this node) or SourceError."""
        ...


class SlurmBits:
    """Which GPU a number of SLURM's means on this node, or on one of several slurmd that share it."""

    def __init__(self, settings: GpuMappingSettings, node_names: Collection[str]) -> None:
        self._settings = settings
        self._node_names = frozenset(node_names)

    def read(self, node: GpuNode, slurmd: str | None = None) -> GresBits:
        """Return the bits as gres.conf has them now."""
        text = next((found for path in self._settings.gres_conf if (found := read_small(path)) is not None), "")
        lines = parse_gres_conf(text, {slurmd} if slurmd else self._node_names)
        return gres_bits(node.names.of_first_vendor(), lines, self._settings.slurm_order)


class PrologFinder:
    """Files of a prolog: the site's own word."""

    sources = (ClaimSource.PROLOG,)

    def __init__(self, settings: GpuMappingSettings, bits: SlurmBits, job_dir: Path | None = None) -> None:
        """`job_dir` is where the prolog that comes with this agent keeps its notes."""
        self._settings = settings
        self._bits = bits
        self._job_dir = job_dir
        self.jobs: tuple[gpu_prolog.PrologJob, ...] = ()
        """As last read, those included that do not live here."""

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who holds what by the files. Raises Unavailable where there is no directory, or a closed file."""
        directories = [path for path in self._settings.prolog_dirs if is_there(path)]
        if not directories and (self._job_dir is None or not is_trusted(self._job_dir)):
            self.jobs = ()
            raise Unavailable("absent", "no directory of prolog files is here")
        files = gpu_prolog.read_files(directories)
        holds, jobs = gpu_prolog.holds_of(files, node, self._settings.prolog_numbers, self._bits.read(node))
        noted_holds, noted_jobs = self._noted(node)
        self.jobs = tuple(dict.fromkeys((*jobs, *noted_jobs)))
        return [*dict.fromkeys((*holds, *noted_holds))]

    def _noted(self, node: GpuNode) -> tuple[list[Hold], list[gpu_prolog.PrologJob]]:
        """Return who holds what by the notes of jobs that are not over."""
        notes = [] if self._job_dir is None else read_notes(self._job_dir)
        holds: list[Hold] = []
        jobs: list[gpu_prolog.PrologJob] = []
        for note in notes:
            if note.ended_seconds is not None or not note.gpus:
                continue
            bits = self._bits.read(node, note.node)
            places = [place for number in note.gpus for place in bits.places(number)]
            units = [unit for unit in gpu_prolog.job_units(node, note.job) if unit.info.node_name in (None, note.node)]
            jobs += (gpu_prolog.PrologJob(place, note.job) for place in places)
            holds += (Hold(unit.key, place, ClaimSource.PROLOG) for place in places for unit in units)
        return holds, jobs


class CgroupFinder:
    """Device rules of v1 cgroups; v2 has programs instead, which cannot be read."""

    sources = (ClaimSource.CGROUP,)

    def __init__(self, fs: HostFS, layout: CgroupLayout | None) -> None:
        self._fs = fs
        self._devices = layout.controllers.get("devices") if layout is not None else None

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who may open what. Raises Unavailable where there is no such hierarchy."""
        if self._devices is None:
            raise Unavailable("absent", "no cgroup v1 hierarchy of devices is mounted")
        holds: list[Hold] = []
        for unit in node.units.values():
            if unit.cgroup is None or unit.key.manager in _NOT_ASKED:
                continue
            try:
                text = self._fs.read_text(self._devices.file(unit.cgroup, "devices.list"))
            except (Unavailable, SourceError):  # the unit has no directory in this hierarchy
                continue
            places = gpu_device_rules.places_of(gpu_device_rules.parse_device_rules(text), node.names)
            holds += (Hold(unit.key, place, ClaimSource.CGROUP, exclusive=_given_alone(unit)) for place in places)
        return holds


class EnvironFinder:
    """Environments of the processes in a unit. What a unit says stays, so it is asked again seldom."""

    sources = (ClaimSource.ENVIRON,)

    def __init__(
        self, fs: HostFS, pids: Callable[[TrackedUnit], Sequence[int]], bits: SlurmBits, clock_ns: Callable[[], int]
    ) -> None:
        """`clock_ns` is the boot-time clock of `TrackedUnit.first_seen_ns`."""
        self._fs = fs
        self._pids = pids
        self._bits = bits
        self._clock_ns = clock_ns
        self._told: dict[UnitKey, tuple[int, list[gpu_environ.Environment]]] = {}

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who says that he holds what. Raises Unavailable (permission) where no environment may be read."""
        now_ns = self._clock_ns()
        holds: list[Hold] = []
        bits: dict[str | None, GresBits] = {}
        asked = [unit for unit in node.units.values() if unit.key.manager not in _NOT_ASKED]
        refused = 0
        for unit in asked:
            environments = self._environments(unit, now_ns)
            if environments is None:
                refused += 1
                continue
            slurmd = unit.info.node_name or gpu_environ.slurmd_of(environments)
            if slurmd not in bits:
                bits[slurmd] = self._bits.read(node, slurmd)
            holds += gpu_environ.holds_of(unit.key, environments, node, bits[slurmd])
        self._told = {unit.key: self._told[unit.key] for unit in asked if unit.key in self._told}
        if asked and refused == len(asked):
            raise Unavailable("permission", "no environment may be read: expected root or CAP_SYS_PTRACE")
        return holds

    def _environments(self, unit: TrackedUnit, now_ns: int) -> list[gpu_environ.Environment] | None:
        """Return what the processes say; None where all refuse."""
        due_ns, told = self._told.get(unit.key, (0, []))
        if now_ns < due_ns:
            return told
        found, refused = self._ask(unit)
        if found or not told:
            told = found
        young = now_ns - unit.first_seen_ns < _YOUNG_NS
        self._told[unit.key] = (now_ns if young else now_ns + _AGAIN_NS), told
        return None if refused and not told else told

    def _ask(self, unit: TrackedUnit) -> tuple[list[gpu_environ.Environment], bool]:
        found: list[gpu_environ.Environment] = []
        refused = read = 0
        for pid in self._pids(unit)[:_PROCESSES_ASKED]:
            try:
                environment = read_environment(self._fs, pid, gpu_environ.NAMES)
            except Unavailable as error:
                refused += error.reason == "permission"
                continue
            except SourceError:
                continue
            read += 1
            if environment and environment not in found:
                found.append(environment)
        return found, refused > 0 and not read


class OarFinder:
    """OAR's files of a job's resources."""

    sources = (ClaimSource.OAR,)

    def __init__(self, directories: Sequence[Path], node_names: Collection[str]) -> None:
        self._directories = directories
        self._node_names = frozenset(node_names)

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who holds what. Raises Unavailable where OAR keeps no files here."""
        if not any(is_there(directory) for directory in self._directories):
            raise Unavailable("absent", "no directory of OAR's is here")
        names = node.names.of_first_vendor()
        return [
            Hold(unit.key, place, ClaimSource.OAR)
            for unit in node.of_managers((oar.MANAGER,))
            for directory in self._directories
            for minor in gpu_oar.parse_gpu_devices(
                read_small(directory / f"{unit.key.unit}_resources") or "", self._node_names
            )
            for place in names.by_minor(minor)
            if not names.is_divided(place)
        ]


def _given_alone(unit: TrackedUnit) -> bool | None:
    """Return None (not said) where a manager gives GPUs to one at a time, False where many may see one."""
    return None if is_job_manager(unit.key.manager) or unit.key.manager == kubernetes.MANAGER else False
