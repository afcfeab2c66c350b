"""SLURM's words, one by one: memory, times, durations, TRES, states, job ids. Pure; None is unknown, never 0."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from kwhere.core.errors import SourceError
from kwhere.discovery.node_expressions import count_numbers, expand_numbers

_UNKNOWN = frozenset(
    {
        *("", "unknown", "none", "n/a", "invalid", "(null)", "null", "unlimited", "partition_limit", "?"),
        *("infinite", "not_set", "invalid_time", "noval", "unset"),
    }
)
_NO_VALUES = frozenset({"4294967295", "4294967294", "18446744073709551615", "18446744073709551614"})
"""SLURM's INFINITE and NO_VAL, which a program that forgets about them prints as numbers."""
_UNITS = "KMGTPEZY"
_MEMORY = re.compile(r"([0-9]{1,24}(?:\.[0-9]{1,9})?)([A-Za-z?]?)([cn]?)")
_DURATION = re.compile(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_DAYS_AND_HOURS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?"
    r" ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_EPOCH = re.compile(r"([0-9]{1,12})(?:\.[0-9]{1,9})?")
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_EPOCH = 253_402_300_799
_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)(?:\(x([0-9]{1,9})\))?")
_COUNT_UNITS = "KMGTP"
_TRES_IDS = {"1": "cpu", "2": "mem", "4": "node"}
"""What slurmdbd's tables call them; ids from 1001 on are each site's own."""
_PLACES = re.compile(r"\((?:S|IDX|CNT):[^)]*\)?")
"""Sockets and indices, as `gpu:a100:2(S:0-1)` and `(IDX:0,3)` have them."""
_SLUID = re.compile(r"s[0-9A-Za-z]{8,40}")
"""Of any length that a later release may give it."""
_JOB_ID = re.compile(
    r"(?:(?P<sluid>s[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{13})|"
    r"(?P<job>[0-9]{1,18})(?:_(?:(?P<task>[0-9]{1,18})|\[(?P<tasks>[0-9,:\-]{1,1000000}?)(?:,?\.\.\.)?"
    r"(?:%(?P<throttle>[0-9]{1,9}))?\](?:%(?P<throttle_behind>[0-9]{1,9}))?))?"
    r"(?:\+(?P<het>[0-9]{1,9}))?)(?:\.(?P<step>[A-Za-z0-9_+]{1,64}))?"
)


class Per(StrEnum):
    """What a memory figure is of."""

    JOB = "job"
    CPU = "cpu"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount; `0` of a request is all there is, so `is_all`."""

    size_bytes: int
    per: Per = Per.JOB

    @property
    def is_all(self) -> bool:
        """Return whether a request of it means whatever there is, or nothing known."""
        return self.size_bytes == 0

    def total_bytes(self, cpus: float | None, nodes: float | None) -> int | None:
        """Return the sum over CPUs or nodes; None where that cannot be told."""
        times = {Per.JOB: 1.0, Per.CPU: cpus, Per.NODE: nodes}[self.per]
        return None if self.is_all or times is None else int(self.size_bytes * times)


def parse_memory(text: str, plain_unit: str = "") -> Memory | None:
    """Return `16000M`, `4Gc` (per CPU) or `48000Mn` (per node); None where unknown. Units are powers of 1024.

    A number alone is of `plain_unit`: bytes in MaxRSS, `M` in TRES. Raises SourceError.
    """
    words = text.strip()
    if words.lower() in _UNKNOWN or words.rstrip("KMGcn") in _NO_VALUES:
        return None
    found = _MEMORY.fullmatch(words)
    if found is None:
        raise SourceError(f"memory: expected a number with a unit, such as 4Gc, found {words[:40]!r}")
    number, unit, per = found.groups()
    # `0c`, `0n`: the letter is what it is of, not a unit.
    if unit in ("c", "n") and not per:
        unit, per = "", unit
    unit = (unit if unit not in ("", "?") else plain_unit).upper()
    if unit not in ("", "B") and unit not in _UNITS:
        raise SourceError(f"memory: expected one of {', '.join(_UNITS)} for a unit, found {words[:40]!r}")
    factor = 1 if unit in ("", "B") else 1024 ** (_UNITS.index(unit) + 1)
    size = int(number) * factor if "." not in number else int(float(number) * factor)
    return Memory(size, {"c": Per.CPU, "n": Per.NODE}.get(per, Per.JOB))


def parse_duration(text: str) -> float | None:
    """Return the seconds of `1-02:03:04`, `02:03:04`, `03:04.567`, `1-02`; None where unknown. Raises SourceError."""
    words = text.strip()
    if words.lower() in _UNKNOWN or words in _NO_VALUES:
        return None
    rounded = _DAYS_AND_HOURS.fullmatch(words)
    if rounded is not None:
        return int(rounded[1]) * 86_400.0 + int(rounded[2]) * 3600
    found = _DURATION.fullmatch(words)
    if found is None:
        raise SourceError(f"duration: expected [DAYS-]HH:MM:SS, found {words[:40]!r}")
    days, hours, minutes, seconds = found.groups()
    # `1-02:03` is days, hours and minutes.
    if days is not None and hours is None:
        return int(days) * 86_400.0 + int(minutes) * 3600 + float(seconds) * 60
    return int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)


def parse_time(text: str) -> datetime | None:
    """Return the instant of seconds since 1970, or of an ISO time (UTC where it has no offset); None where unknown.

    Raises SourceError. We ask in UTC, where no hour comes twice.
    """
    words = text.strip()
    if words.lower() in _UNKNOWN or words in _NO_VALUES or words == "0":
        return None
    if seconds := _EPOCH.fullmatch(words):
        return time_of(int(seconds[1]))
    found = _TIME.fullmatch(words)
    if found is None:
        raise SourceError(f"time: expected seconds since 1970 or YYYY-MM-DDTHH:MM:SS, found {words[:40]!r}")
    try:
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        # A leap second is the first of the next minute, as in seconds since 1970.
        leap = 1 if second == 60 else 0
        local = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC) + timedelta(seconds=leap)
        moment = local - _offset(found[7])
    except (ValueError, OverflowError) as error:
        raise SourceError(f"time: {words[:40]!r}: {error}") from error
    # 0, written as a time.
    return moment if moment > _EPOCH_START else None


def time_of(seconds: int) -> datetime | None:
    """Return the instant of seconds since 1970; None for 0 and for what stands for never. Raises SourceError."""
    if seconds in (0, 2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2):
        return None
    if not 0 < seconds <= _LAST_EPOCH:
        raise SourceError(f"time: expected seconds since 1970, found {seconds}")
    return datetime.fromtimestamp(seconds, UTC)


def _offset(text: str | None) -> timedelta:
    if text is None or text == "Z":
        return timedelta()
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 15 or minutes > 59:
        raise ValueError(f"offset {text}")
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


@dataclass(frozen=True, slots=True)
class Tres:
    """Trackable resources; None: not said."""

    cpus: float | None = None
    memory_bytes: int | None = None
    nodes: int | None = None
    gpus: dict[str, float] = field(default_factory=dict)
    """By type; `gpu` is what has none. MIG profiles are types of their own."""


@lru_cache(maxsize=4096)
def parse_tres(text: str) -> Tres:
    """Return `cpu=16,mem=64G,node=1,gres/gpu:a100=2`; what cannot be read of it is unknown, other resources pass."""
    said: dict[str, str] = {}
    for part in _outside_brackets(text):
        key, separator, value = _PLACES.sub("", part).partition("=")
        if separator:
            said[_key(key.strip())] = value.strip()
        else:
            # `gres/gpu:a100:2`, as squeue has it.
            said |= {f"gres/gpu:{kind}": f"{count:g}" for kind, count in parse_gres(part).items() if "/" in part}
    nodes = _count(said.get("node"))
    return Tres(
        cpus=_count(said.get("cpu")),
        memory_bytes=_memory_of(said.get("mem")),
        nodes=None if nodes is None else int(nodes),
        gpus=_gpus(said),
    )


def _key(word: str) -> str:
    """Types of GPUs keep their case."""
    key = re.sub(r"^gres:", "gres/", word, flags=re.IGNORECASE)
    return key if key.lower().startswith("gres/gpu:") else _TRES_IDS.get(key, key.lower())


def _memory_of(text: str | None) -> int | None:
    try:
        found = None if text is None else parse_memory(text, "M")
    except SourceError:
        return None
    # Nobody is given no memory: 0 stands for all there is, or for nothing known.
    return None if found is None or found.is_all else found.size_bytes


def _count(text: str | None) -> float | None:
    found = _COUNT.fullmatch(text or "")
    if found is None or found[0] in _NO_VALUES:
        return None
    # SLURM shortens counts as it does bytes: 2K are 2048.
    factor = 1024 ** (_COUNT_UNITS.index(found[2]) + 1) if found[2] else 1
    return float(found[1]) * factor * int(found[3] or 1)


def _gpus(said: dict[str, str]) -> dict[str, float]:
    """A total stands beside its types: what they leave of it has no type."""
    typed: dict[str, float] = {}
    for key, value in said.items():
        if key.lower().startswith("gres/gpu:"):
            count = _count(value)
            if count:
                name = key[len("gres/gpu:") :] or "gpu"
                typed[name] = typed.get(name, 0.0) + count
    rest = (_count(said.get("gres/gpu")) or 0.0) - sum(typed.values())
    return {**typed, "gpu": rest} if rest > 0 else typed


def parse_gres(text: str) -> dict[str, float]:
    """Return GPUs by type of `gpu:a100:2(S:0-1),gpu:1,mps:200`; what is no whole GPU passes."""
    found: dict[str, float] = {}
    for part in _outside_brackets(text):
        plain = re.sub(r"\([^)]*\)?", "", part).strip().replace("=", ":")
        words = [word for word in plain.split(":") if word not in ("", "no_consume")]
        words = words[1:] if words and words[0].lower() == "gres" else words
        if not words or words[0].lower() not in ("gpu", "gres/gpu"):
            continue
        if words[-1].startswith("-") or words[-1] in _NO_VALUES:
            continue
        count = _count(words[-1]) if len(words) > 1 else 1.0
        kind = ":".join(words[1:-1] if count is not None else words[1:]) or "gpu"
        amount = 1.0 if count is None else count
        if amount:
            found[kind] = found.get(kind, 0.0) + amount
    return found


def _outside_brackets(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            yield text[begin:index]
            begin = index + 1
    yield text[begin:]


KNOWN_STATES: tuple[str, ...] = (
    *("pending", "running", "suspended", "completing", "configuring", "completed", "cancelled", "failed", "timeout"),
    *("node_fail", "preempted", "boot_fail", "deadline", "out_of_memory", "revoked", "resizing", "requeued"),
    *("requeue_fed", "requeue_hold", "signaling", "special_exit", "stage_out", "stopped", "launch_failed"),
    *("reconfig_fail", "power_up_node", "update_db", "expediting", "resv_del_hold"),
)
_CODES = {
    "bf": "boot_fail", "ca": "cancelled", "cd": "completed", "cf": "configuring", "cg": "completing", "dl": "deadline",
    "f": "failed", "nf": "node_fail", "oom": "out_of_memory", "pd": "pending", "pr": "preempted", "r": "running",
    "rq": "requeued", "rs": "resizing", "rv": "revoked", "s": "suspended", "to": "timeout", "st": "stopped",
    "se": "special_exit", "si": "signaling", "so": "stage_out", "rd": "resv_del_hold", "rf": "requeue_fed",
    "rh": "requeue_hold",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """A job's state in our case; a strange word passes through."""

    name: str
    is_known: bool
    by: str | None = None
    """Who cancelled it: a uid."""


def parse_state(text: str) -> State:
    """Return `CANCELLED by 1000`, `OUT_OF_ME+`, `CD`, `RUNNING+COMPLETING` and the like as one of the known states.

    Of a state with flags the state counts. A word that is cut so short that it may be several stays as it is.
    """
    words = "".join(sign for sign in text.lower() if sign.isprintable() or sign.isspace())
    words = re.sub(r"\([^)]*\)$", "", " ".join(words.split()))
    head, _, by = words.partition(" by")
    head, by = (head, by) if not by or by[0] == " " else (words, "")
    first = re.split(r"[+,;|]", head.strip(), maxsplit=1)[0].strip()
    if head.endswith("+") and first not in KNOWN_STATES:
        fitting = [name for name in KNOWN_STATES if name.startswith(first)]
        first = fitting[0] if len(fitting) == 1 else first
    name = next((word for word in _spellings(first) if word in KNOWN_STATES), first)
    is_nothing = name in _UNKNOWN - {"invalid"}
    return State("unknown" if is_nothing else name, name in KNOWN_STATES, by.strip().rstrip("+") or None)


def _spellings(words: str) -> Iterator[str]:
    """Yield a state as it may be meant: by its code, `NODE FAIL` in one word, `RUNNING COMPLETING` by its first."""
    yield _CODES.get(words, words)
    yield words.replace(" ", "_")
    yield words.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class JobId:
    """A job id as people and tools write it. Either `job` or `sluid` is there."""

    job: int | None = None
    sluid: str | None = None
    task: int | None = None
    tasks: tuple[int, ...] = ()
    """Array tasks that still wait: `_[9-11,13]`."""
    throttle: int | None = None
    het: int | None = None
    step: str | None = None


def parse_job_id(text: str) -> JobId:
    """Return `123_4`, `123+0`, `123.batch`, `123_[9-11%4]` or a SLUID; of a list cut by `...` what is there.

    Raises SourceError.
    """
    found = _match_job_id(text)
    throttle = found["throttle"] or found["throttle_behind"]
    return JobId(
        job=None if found["job"] is None else int(found["job"]),
        sluid=found["sluid"],
        task=None if found["task"] is None else int(found["task"]),
        tasks=expand_numbers(found["tasks"]) if found["tasks"] else (),
        throttle=None if throttle is None else int(throttle),
        het=None if found["het"] is None else int(found["het"]),
        step=found["step"],
    )


def sluid_of(text: str) -> str | None:
    """Return a SLUID, or None for what cannot be one: the run is then named by its start."""
    word = text.strip()
    return word if _SLUID.fullmatch(word) else None


def step_of(text: str) -> str | None:
    """Return the step of a job id, None for a job itself, however many tasks it stands for. Raises SourceError."""
    return _match_job_id(text)["step"]


def count_tasks(text: str) -> int:
    """Return how many tasks of an array a job id stands for, at least 1, however many they are. Raises SourceError."""
    tasks = _match_job_id(text)["tasks"]
    return count_numbers(tasks) if tasks else 1


def _match_job_id(text: str) -> re.Match[str]:
    words = text.strip()
    found = _JOB_ID.fullmatch(words)
    if found is None:
        raise SourceError(f"job id: expected a number such as 123_4, found {words[:40]!r}")
    return found
