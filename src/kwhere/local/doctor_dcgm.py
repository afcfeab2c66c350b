"""Whether an exporter of the same GPU series runs here already: scraped both, every sum would double."""

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids, read_command
from kwhere.local.doctor import Check, Examination, warning
from kwhere.local.doctor_place import Place

PROGRAM = "dcgm-exporter"
PORT = 9400
_LISTENING = "0A"
_WHY = (
    "It shows the series that kwhere's own dcgm-exporter face shows: where a Prometheus scrapes both, every sum counts"
    " each GPU twice. Let it scrape one of them. docs/dcgm-exporter.md says how to change over."
)


def check_dcgm_exporter(place: Place) -> list[Check]:
    """Warn of a dcgm-exporter that is not ours, or of another program on its port; nothing without."""
    pids = find_exporters(place.fs)
    if pids:
        return [warning("dcgm_exporter", f"NVIDIA's {PROGRAM} runs here (process {pids[0]})", _WHY)]
    if is_listened_on(place.fs, PORT) and not _has_own(place.fs):
        return [warning("dcgm_exporter", f"something answers on port {PORT}, dcgm-exporter's", _WHY)]
    return []


def find_exporters(fs: HostFS) -> list[int]:
    """Return the processes whose program is NVIDIA's exporter: ours is a script that an interpreter runs."""
    return [pid for pid in _pids(fs) if PROGRAM in map(_name, _arguments(fs, pid)[:1])]


def is_listened_on(fs: HostFS, port: int) -> bool:
    """Return whether any socket listens on a TCP port."""
    for table in ("proc/net/tcp", "proc/net/tcp6"):
        for line in _text(fs, table).splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == _LISTENING and words[1].rpartition(":")[2] == f"{port:04X}":
                return True
    return False


def _has_own(fs: HostFS) -> bool:
    return any(PROGRAM in map(_name, _arguments(fs, pid)[1:2]) for pid in _pids(fs))


def _pids(fs: HostFS) -> list[int]:
    try:
        return list_pids(fs)
    except Unavailable:
        return []


def _arguments(fs: HostFS, pid: int) -> list[str]:
    try:
        return read_command(fs, pid)
    except (Unavailable, SourceError):  # it ended, or is closed to us
        return []


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _text(fs: HostFS, path: str) -> str:
    try:
        return fs.read_text(path)
    except (Unavailable, SourceError):
        return ""


CHECKS = (Examination("dcgm_exporter", "Units", check_dcgm_exporter),)
"""Of the running machine alone."""
