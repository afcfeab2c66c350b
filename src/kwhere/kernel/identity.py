"""Who this host is: boot, machine, board and processor."""

from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS, failure
from kwhere.kernel.numbers import excerpt

MACHINE_ID_FILE = Path("/etc/machine-id")
BOOT_ID_FILE = "proc/sys/kernel/random/boot_id"
PRODUCT_UUID_FILE = "sys/class/dmi/id/product_uuid"
_CPUINFO_HEAD_BYTES = 16384  # the first processor is enough, and the file grows with their number
_ID_LONGEST = 128


@dataclass(frozen=True, slots=True)
class CpuModel:
    """The first processor as `/proc/cpuinfo` names it; None where it does not say."""

    vendor: str | None = None
    """x86: vendor_id; Arm: the implementer's number."""
    family: int | None = None
    model: int | None = None
    name: str | None = None
    stepping: int | None = None
    part: str | None = None
    """Arm: the core's number, e.g. 0xd0c of Neoverse N1."""
    board: str | None = None
    """What boards call themselves, e.g. a Raspberry Pi."""
    is_guest: bool = False
    """Whether the processor says that a hypervisor runs it."""

    @property
    def code(self) -> str:
        """Return `vendor/family/model/stepping`, on Arm `implementer//part`; empty where the vendor is not known."""
        if self.vendor is None:
            return ""
        numbers = ("" if number is None else str(number) for number in (self.family, self.model, self.stepping))
        return f"{self.vendor}//{self.part}" if self.part else "/".join((self.vendor, *numbers))


def boot_id(fs: HostFS) -> str:
    """Return the kernel's random id of this boot. Raises Unavailable or SourceError."""
    return fs.read_name(BOOT_ID_FILE)


def machine_id(path: Path = MACHINE_ID_FILE) -> str:
    """Return the id of this installation. Raises Unavailable or SourceError."""
    try:
        with path.open("rb") as file:
            word = file.read(_ID_LONGEST + 1).decode(errors="replace").strip()
    except OSError as error:
        raise failure(error, path) from error
    if word == "uninitialized":  # what systemd leaves in an image that has not booted yet
        raise Unavailable("absent", f"{path}: holds no id yet")
    if not word or len(word) > _ID_LONGEST or not word.isprintable():
        raise SourceError(f"{path}: expected an id, found {excerpt(word)}")
    return word


def product_uuid(fs: HostFS) -> str | None:
    """Return the board's UUID in lower case; None where there is none or only root may read it."""
    try:
        return fs.read_name(PRODUCT_UUID_FILE).lower()
    except (Unavailable, SourceError):
        return None


def read_cpu_model(fs: HostFS) -> CpuModel:
    """Return vendor, family, model and name of the first processor; all None where nothing can be read."""
    try:
        return parse_cpu_model(fs.read_head("proc/cpuinfo", _CPUINFO_HEAD_BYTES).decode(errors="replace"))
    except (Unavailable, SourceError):
        return CpuModel()


def parse_cpu_model(text: str) -> CpuModel:
    """Return what `/proc/cpuinfo` says of the first processor."""
    facts: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon and value.strip():
            facts.setdefault(name.strip(), value.strip())
    return CpuModel(
        vendor=facts.get("vendor_id") or facts.get("CPU implementer"),
        family=_number(facts.get("cpu family")),
        model=_number(facts.get("model")),
        name=facts.get("model name") or facts.get("cpu") or facts.get("Processor"),
        stepping=_number(facts.get("stepping")),
        part=facts.get("CPU part"),
        board=facts.get("Model"),
        is_guest="hypervisor" in facts.get("flags", "").split(),
    )


def _number(word: str | None) -> int | None:
    return int(word) if word and word.isascii() and word.isdigit() and len(word) < _ID_LONGEST else None
