"""What `scontrol show node --oneliner` and `sacctmgr --parsable2` say of nodes and accounts. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from kwhere.core.errors import SourceError
from kwhere.core.managed import Account, Accounts, ManagerAllocation, ManagerNode, Membership
from kwhere.resource_managers.slurm_words import parse_gres, parse_memory, parse_tres

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]{0,40})=")
_NOTHING = frozenset({"", "(null)", "n/a", "none", "unknown"})
_MARKS = {"*": "not_responding", "~": "powered_down", "#": "powering_up", "!": "powering_down", "%": "powering_down",
          "$": "maint", "@": "reboot", "^": "reboot", "-": "planned"}  # fmt: skip
_CLOSED = frozenset(
    {
        *(
            "down",
            "drain",
            "drained",
            "draining",
            "fail",
            "failing",
            "error",
            "unknown",
            "future",
            "maint",
            "maintenance",
        ),
        *("not_responding", "reboot", "reboot_issued", "reboot_requested", "invalid_reg", "blocked"),
    }
)
"""A node that saves power is woken for a job: it is open."""


def parse_pairs(line: str) -> Mapping[str, str]:
    """Return `Key=value` pairs; values may hold spaces, and of a key that comes twice the first stands."""
    found = [*_KEY.finditer(line)]
    pairs: dict[str, str] = {}
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(line)
        pairs.setdefault(match[1], line[match.end() : end].strip())
    return pairs


def read_nodes(text: str) -> Iterator[ManagerNode]:
    """Yield the nodes, one per line."""
    for line in text.split("\n"):  # a reason may hold what else ends a line in Unicode
        pairs = parse_pairs(line)
        if pairs.get("NodeName"):
            yield _node(pairs)


def parse_node_state(text: str) -> tuple[str, bool]:
    """Return `IDLE+DRAIN`, `MIXED*` and the like in lower case with marks spelled out, and whether jobs may start."""
    words: list[str] = []
    for part in text.strip().lower().split("+"):
        name = part.rstrip("".join(_MARKS))
        words += [name] if name else []
        words += [_MARKS[mark] for mark in part[len(name) :]]
    unique = list(dict.fromkeys(words))
    return "+".join(unique) or "unknown", bool(unique) and not _CLOSED & set(unique)


def _node(pairs: Mapping[str, str]) -> ManagerNode:
    state, is_open = parse_node_state(pairs.get("State", ""))
    configured, taken = parse_tres(pairs.get("CfgTRES", "")), parse_tres(pairs.get("AllocTRES", ""))
    features = _word(pairs, "ActiveFeatures") or _word(pairs, "AvailableFeatures")
    return ManagerNode(
        name=pairs["NodeName"],
        state=state,
        is_schedulable=is_open,
        reason=_word(pairs, "Reason"),
        type=features,
        cpus=_number(pairs.get("CPUEfctv")) or _number(pairs.get("CPUTot")) or configured.cpus,
        memory_bytes=_megabytes(pairs.get("RealMemory")) or configured.memory_bytes,
        gpus=configured.gpus or parse_gres(_word(pairs, "Gres") or ""),
        # Where AccountingStorageTRES leaves out GPUs, both kinds of TRES do.
        allocated=ManagerAllocation(
            _number(pairs.get("CPUAlloc")),
            _megabytes(pairs.get("AllocMem")),
            taken.gpus if configured.gpus else parse_gres(_word(pairs, "GresUsed") or ""),
        ),
        queues=tuple(name for name in (_word(pairs, "Partitions") or "").split(",") if name),
    )


def _word(pairs: Mapping[str, str], key: str) -> str | None:
    word = pairs.get(key, "").strip()
    return None if word.lower() in _NOTHING else word


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() and len(text) <= 9 else None


def _megabytes(text: str | None) -> int | None:
    try:
        found = parse_memory(text or "", "M")
    except SourceError:
        return None
    return None if found is None else found.size_bytes


def read_accounts(associations: str, descriptions: str, suffixes: Sequence[str] = ()) -> Accounts:
    """Return accounts and members of lines `Account|User|ParentName` and `Account|Description`."""
    described = {words[0]: words[1] for words in _rows(descriptions, 2)}
    parents: dict[str, str | None] = {}
    members: set[Membership] = set()
    for account, user, parent in _rows(associations, 3):
        name = without_suffix(account, suffixes)
        if user:
            members.add(Membership(user, name))
            parents.setdefault(name, None)
        else:
            parents[name] = without_suffix(parent, suffixes) or None
    accounts = tuple(Account(name, described.get(name) or None, parents[name]) for name in sorted(parents))
    return Accounts(accounts, tuple(sorted(members)))


def _rows(text: str, width: int) -> Iterator[list[str]]:
    for line in text.split("\n"):
        words = line.split("|", width - 1)  # a description may hold any sign
        if len(words) == width and words[0]:
            yield words


def without_suffix(account: str, suffixes: Sequence[str]) -> str:
    """Return an account without the first of the suffixes that it ends in, once."""
    for suffix in suffixes:
        if suffix and account.endswith(suffix) and account != suffix:
            return account[: -len(suffix)]
    return account
