"""What Proxmox VE says of guests, nodes, pools and rights, as units, nodes and accounts. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kwhere.core.managed import (
    NO_ALLOCATION,
    Account,
    Accounts,
    ManagerAllocation,
    ManagerNode,
    ManagerUnit,
    Membership,
    run_name,
)
from kwhere.discovery.containers import LXC
from kwhere.discovery.libvirt import MANAGER as UNITS
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.rest_values import count, text

QEMU = "qemu"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DEVICE = re.compile(r"hostpci[0-9]{1,2}")
_POOL_PATH = "/pool/"
_LONGEST_UPTIME_SECONDS = 40 * 365 * 86_400
_LATEST = datetime(2100, 1, 1, tzinfo=UTC)

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Guest:
    """A row of the cluster's resources: a machine or a container."""

    kind: str
    """qemu or lxc."""
    vm_id: int
    node: str
    name: str | None
    status: str
    """running, stopped, paused, …; unknown where its node is offline."""
    cpus: float | None
    memory_bytes: int | None
    uptime_seconds: int
    pool: str | None
    tags: tuple[str, ...]

    @property
    def is_running(self) -> bool:
        """Return whether it holds CPUs and memory."""
        return self.status in ("running", "paused", "suspended", "prelaunch")


@dataclass(frozen=True, slots=True)
class GuestFacts:
    """What only a guest's configuration says."""

    uuid: str | None = None
    created_at: datetime | None = None
    gpus: Mapping[str, float] | None = None


NO_FACTS = GuestFacts()


def guest_of(row: Record) -> Guest | None:
    """Return a guest; None for anything else, and for a template, which never runs."""
    kind, vm_id, node = text(row.get("type")), count(row.get("vmid")), text(row.get("node"))
    if kind not in (QEMU, LXC) or vm_id is None or node is None or count(row.get("template")):
        return None
    cpus = row.get("maxcpu")
    return Guest(
        kind=kind,
        vm_id=vm_id,
        node=node,
        name=text(row.get("name")),
        status=(text(row.get("status")) or "unknown").lower(),
        cpus=_amount(cpus),
        memory_bytes=count(row.get("maxmem")) or None,
        uptime_seconds=count(row.get("uptime")) or 0,
        pool=text(row.get("pool")),
        tags=tuple(filter(None, re.split(r"[;, ]+", text(row.get("tags")) or ""))),
    )


def is_nameless(row: Record, kind: str) -> bool:
    """Return whether a row is a guest of `kind` without what would tell which one: any may be meant."""
    return text(row.get("type")) == kind and not count(row.get("template")) and guest_of(row) is None


def facts_of(config: Record, gpu_mappings: Mapping[str, str]) -> GuestFacts:
    """Return what a guest's configuration says."""
    uuid = _option(text(config.get("smbios1")) or "", "uuid")
    uuid = uuid.lower() if uuid else None
    created = count(_option(text(config.get("meta")) or "", "ctime"))
    devices = [text(value) or "" for key, value in config.items() if _DEVICE.fullmatch(key)]
    return GuestFacts(
        uuid=uuid if uuid and _UUID.fullmatch(uuid) else None,
        created_at=_instant(created),
        gpus=_gpus(devices, gpu_mappings),
    )


def unit_of(
    guest: Guest, facts: GuestFacts, cluster: str, owner_tag: str, started_at: datetime | None
) -> ManagerUnit | None:
    """Return a guest as a unit; None for one that only its start would tell apart from another and that has none.

    A machine with a UUID is one run from its creation; of anything else each start is a run, for its number may be
    another guest's later.
    """
    is_machine = guest.kind == QEMU and facts.uuid is not None
    native = unit_id(facts.uuid if is_machine and facts.uuid else str(guest.vm_id))
    if started_at is None:
        return None
    return ManagerUnit(
        cluster=cluster,
        manager=UNITS if guest.kind == QEMU else LXC,
        unit=native,
        run=native if is_machine else run_name(native, started_at),
        state=guest.status,
        started_at=facts.created_at or started_at if is_machine else started_at,
        is_start_known=not is_machine or facts.created_at is not None,
        name=guest.name,
        user=owner_of(guest, owner_tag),
        project=guest.pool,
        nodes=None,  # it migrates, and only where it is now is known
        allocation=_allocation(guest, facts) if guest.is_running else NO_ALLOCATION,
        tags={"vmid": str(guest.vm_id), "host": guest.node, **({"tags": " ".join(guest.tags)} if guest.tags else {})},
    )


def owner_of(guest: Guest, owner_tag: str) -> str | None:
    """Return the user that a tag names; none where several do."""
    named = {tag.removeprefix(owner_tag) for tag in guest.tags if tag.startswith(owner_tag) and tag != owner_tag}
    return named.pop() if len(named) == 1 else None


def start_of(guest: Guest, now: datetime) -> datetime | None:
    """Return when a running guest was started, to a second or two; None for one that does not run."""
    if not guest.is_running or not 0 < guest.uptime_seconds < _LONGEST_UPTIME_SECONDS:
        return None
    return (now - timedelta(seconds=guest.uptime_seconds)).replace(microsecond=0)


def nearest_start(guess: datetime, tasks: Iterable[Record], tolerance: timedelta) -> datetime | None:
    """Return the start that a task tells of and that is nearest to a guess; None where none is near."""
    found = [at for task in tasks if (at := _instant(count(task.get("starttime")))) is not None]
    near = [at for at in found if abs(at - guess) <= tolerance]
    return min(near, key=lambda at: abs(at - guess)) if near else None


def node_of(row: Record, guests: Sequence[Guest]) -> ManagerNode | None:
    """Return a node with what its running guests hold; None for one without a name."""
    name = text(row.get("node"))
    if name is None:
        return None
    state = (text(row.get("status")) or "unknown").lower()
    held = [guest for guest in guests if guest.node == name and guest.is_running]
    return ManagerNode(
        name=name,
        state=state,
        is_schedulable=state == "online",
        type="proxmox",
        cpus=_amount(row.get("maxcpu")),
        memory_bytes=count(row.get("maxmem")) or None,
        allocated=ManagerAllocation(
            cpus=sum(guest.cpus or 0.0 for guest in held), memory_bytes=sum(guest.memory_bytes or 0 for guest in held)
        ),
    )


def accounts_of(pools: Iterable[Record], rights: Iterable[Record], groups: Iterable[Record]) -> Accounts:
    """Return pools as projects, and who has a right on one; users of one name in several realms keep theirs."""
    members = {text(row.get("groupid")): _words(row.get("users")) for row in groups}
    pairs: set[tuple[str, str]] = set()
    for row in rights:
        path, who = text(row.get("path")) or "", text(row.get("ugid"))
        if not path.startswith(_POOL_PATH) or who is None:
            continue
        users = members.get(who, ()) if row.get("type") == "group" else [who] if row.get("type") == "user" else ()
        pairs |= {(user, path.removeprefix(_POOL_PATH)) for user in users}
    plain = Counter(name.rpartition("@")[0] or name for name in {user for user, _ in pairs})
    shown = {user: short if plain[short := user.rpartition("@")[0] or user] == 1 else user for user, _ in pairs}
    named = [(pool_id, text(row.get("comment"))) for row in pools if (pool_id := text(row.get("poolid"))) is not None]
    return Accounts(
        tuple(Account(name, comment, name.rpartition("/")[0] or None) for name, comment in sorted(named)),
        tuple(sorted({Membership(shown[user], pool) for user, pool in pairs})),
    )


def _allocation(guest: Guest, facts: GuestFacts) -> ManagerAllocation:
    return ManagerAllocation(cpus=guest.cpus, memory_bytes=guest.memory_bytes, gpus=facts.gpus or {})


def _gpus(devices: Sequence[str], mappings: Mapping[str, str]) -> Mapping[str, float]:
    found: Counter[str] = Counter()
    for device in devices:
        name, mdev = _option(device, "mapping"), _option(device, "mdev")
        if name is not None and (name in mappings or "gpu" in name.lower()):
            found[mappings.get(name, "gpu")] += 1
        elif mdev is not None:
            found[f"vgpu:{mdev}"] += 1
    return {model: float(number) for model, number in found.items()}


def _option(line: str, key: str) -> str | None:
    """Return `key` of `a=b,c=d`."""
    return dict(_pairs(line)).get(key)


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    for part in line.split(","):
        key, equals, value = part.partition("=")
        if equals:
            yield key.strip(), value.strip()


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if 0 < found < 1e6 else None


def _words(value: object) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[, ]+", text(value) or "")))


def _instant(seconds: int | None) -> datetime | None:
    if not seconds or seconds >= _LATEST.timestamp():
        return None
    return datetime.fromtimestamp(seconds, UTC)
