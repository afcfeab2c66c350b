"""Programs that read DCMI power: how each is called, and what its words mean when it has no reading."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.dcmi import PowerReading
from kwhere.devices.dcmi_text import parse_capmc, parse_program_text
from kwhere.transport.commands import Finished, run_command

MAX_OUTPUT_BYTES = 1 << 20
_MORE_PLACES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/cray/capmc/default/bin")
"""Where such programs lie; a service's or a user's PATH often leaves these out."""

# The first that fits is the reason; texts of FreeIPMI 1.6, ipmitool 1.8, ipmiutil 3.1 and sudo 1.9.
_FAILURES = (
    ("permission", r"permission denied|must be root|root privilege|not permitted|insufficient privilege|\(d4\)|^sudo:"),
    ("dns", r"invalid hostname|unknown host|address lookup|name or service|name resolution"),
    ("timeout", r"time-?out|timed out|\(c3\)"),
    ("busy", r"\bbusy\b|\((?:c[04ef]|d[0-3]|ff)\)"),
    ("inactive", r"present state|\(d5\)"),
    ("unauthorized", r"password|rakp|unable to establish|authenticat|user ?name|privilege level|session|k_g|cipher"),
    ("absent", r"could not (?:open device|find inband)|no such device|no such file|cannot open an? ipmi|driver.*not"),
    ("unsupported", r"command invalid|invalid (?:command|data)|unsupported|not supported|bad completion|\(c[0-9a-f]\)"),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that prints the power of a machine."""

    executable: str
    package: str
    """Debian's name of what brings it; empty where no distribution has it."""
    before: tuple[str, ...]
    """Arguments before those that a site gives."""
    after: tuple[str, ...]
    local: tuple[str, ...]
    """Arguments that keep it to the kernel's driver, used where a site gives none and there is a device."""
    secret_flags: tuple[str, ...]
    """Flags whose value is a secret, which every user of the machine could see in the list of processes."""
    parse: Callable[[str, str], PowerReading]

    def argv(self, command: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the whole argument list; `command` is the program's path, perhaps after `sudo -n`."""
        return (*command, *self.before, *arguments, *self.after)


FREEIPMI = Program(
    executable="ipmi-dcmi",
    package="freeipmi-tools",
    before=(),
    after=("--get-system-power-statistics",),
    local=("--driver-type=OPENIPMI",),  # else it probes the hardware beside the kernel's driver
    secret_flags=("-p", "--password", "-k", "--k-g"),
    parse=parse_program_text,
)
IPMITOOL = Program(
    executable="ipmitool",
    package="ipmitool",
    before=(),
    after=("dcmi", "power", "reading"),
    local=("-I", "open"),
    secret_flags=("-P", "-k", "-y"),
    parse=parse_program_text,
)
IPMIUTIL = Program(
    executable="ipmiutil",
    package="ipmiutil",
    before=("dcmi",),
    after=("power",),
    local=(),
    secret_flags=("-P", "-R"),
    parse=parse_program_text,
)
CAPMC = Program(
    executable="capmc",
    package="",
    before=("get_system_power",),
    after=("-w", "600"),
    local=(),
    secret_flags=(),
    parse=parse_capmc,
)


def find_program(name: str, path: str) -> str | None:
    """Return where the program lies, on `path` or where administration programs do; None: nowhere."""
    return shutil.which(name, path=":".join((path, *_MORE_PLACES)))


def named_secret(program: Program, arguments: Sequence[str]) -> str | None:
    """Return the flag of `arguments` that carries a secret; None where there is none."""
    for argument in arguments:
        for flag in program.secret_flags:
            is_long = flag.startswith("--")
            if argument == flag or (argument.startswith(f"{flag}=") if is_long else _is_attached(argument, flag)):
                return flag
    return None


def ask_program(
    program: Program, argv: Sequence[str], timeout_seconds: float, environment: Mapping[str, str]
) -> PowerReading:
    """Return what the program printed, however it ended: some hang after their work is done.

    Raises Unavailable, SourceError.
    """
    done = run_command(
        argv, timeout_seconds=timeout_seconds, max_output_bytes=MAX_OUTPUT_BYTES, environment=environment
    )
    try:
        return program.parse(done.stdout.decode(errors="replace"), program.executable)
    except SourceError as error:
        raise failure_of(done, program, error) from error


def failure_of(done: Finished, program: Program, error: SourceError) -> Unavailable | SourceError:
    """Return why a program has no reading, in our words: by what it said, else by its exit status."""
    said = b"\n".join((done.stderr, done.stdout)).decode(errors="replace").lower()
    for reason, pattern in _FAILURES:
        if re.search(pattern, said, re.MULTILINE):
            return Unavailable(reason, f"{program.executable}: {_excerpt(said)}")
    if done.timed_out:
        return Unavailable("timeout", f"{program.executable}: did not end in time, {_excerpt(said)}")
    if done.exit_code == 0:
        return error
    return Unavailable("failed", f"{program.executable}: ended with status {done.exit_code}, {_excerpt(said)}")


def _is_attached(argument: str, flag: str) -> bool:
    return argument.startswith(flag) and not argument.startswith("--")


def _excerpt(said: str) -> str:
    text = " ".join(said[:400].split())
    return f"it says {text[:120]!r}" if text else "it says nothing"
