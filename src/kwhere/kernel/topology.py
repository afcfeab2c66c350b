"""Which CPU sits on which socket (`/sys/devices/system/cpu`, Documentation/admin-guide/cputopology.rst)."""

from collections.abc import Iterator
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import cpu_list

CPU_DIRECTORY = "sys/devices/system/cpu"
ONLY_SOCKET = "0"
"""The label where the kernel does not tell sockets apart."""


@dataclass(frozen=True, slots=True, order=True)
class Cpu:
    """One online CPU. `socket` and `die` are labels, not indexes: a host may have the one socket "15"."""

    number: int
    socket: str
    die: str | None = None


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """The online CPUs, by number."""

    cpus: tuple[Cpu, ...]

    @property
    def online(self) -> tuple[int, ...]:
        """Return the CPU numbers."""
        return tuple(cpu.number for cpu in self.cpus)

    @property
    def sockets(self) -> tuple[str, ...]:
        """Return the socket labels that hold an online CPU, numbers in their order."""
        return tuple(sorted({cpu.socket for cpu in self.cpus}, key=lambda label: (len(label), label)))

    def socket_of(self, number: int) -> str | None:
        """Return the socket of a CPU, None where it is not online."""
        return next((cpu.socket for cpu in self.cpus if cpu.number == number), None)

    def cpus_of(self, socket: str) -> tuple[int, ...]:
        """Return the CPUs of a socket."""
        return tuple(cpu.number for cpu in self.cpus if cpu.socket == socket)


def read_topology(fs: HostFS) -> CpuTopology:
    """Return where each online CPU sits. Raises Unavailable where no CPU can be found at all."""
    return CpuTopology(tuple(_cpu(fs, number) for number in online_cpus(fs)))


def online_cpus(fs: HostFS) -> tuple[int, ...]:
    """Return the online CPU numbers: from `online`, else the directories, else `/proc/stat`. Raises Unavailable."""
    for candidates in (_listed, _directories, _counted):
        try:
            found = tuple(candidates(fs))
        except (Unavailable, SourceError):
            continue
        if found:
            return found
    raise Unavailable("absent", f"{fs.path(CPU_DIRECTORY)}: expected the list of online CPUs, found none")


def _listed(fs: HostFS) -> tuple[int, ...]:
    return cpu_list(fs.read_word(f"{CPU_DIRECTORY}/online"), str(fs.path(f"{CPU_DIRECTORY}/online")))


def _directories(fs: HostFS) -> Iterator[int]:
    names = (name[3:] for name in fs.list_dir(CPU_DIRECTORY) if name.startswith("cpu"))
    return iter(sorted(int(number) for number in names if number.isascii() and number.isdigit()))


def _counted(fs: HostFS) -> Iterator[int]:
    lines = (line.split(" ", 1)[0] for line in fs.read_text("proc/stat").split("\n") if line.startswith("cpu"))
    return iter(sorted(int(name[3:]) for name in lines if name[3:].isascii() and name[3:].isdigit()))


def _cpu(fs: HostFS, number: int) -> Cpu:
    directory = f"{CPU_DIRECTORY}/cpu{number}/topology"
    socket = _label(fs, f"{directory}/physical_package_id")
    return Cpu(number, ONLY_SOCKET if socket is None else socket, _label(fs, f"{directory}/die_id"))


def _label(fs: HostFS, area_path: str) -> str | None:
    """Return the number in a topology file as a label; None for -1 and for what cannot be read."""
    try:
        number = fs.read_int(area_path)
    except (Unavailable, SourceError):
        return None
    return str(number) if number >= 0 else None
