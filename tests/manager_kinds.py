"""Every resource manager with a service of ours that tells the same: job a from noon to one, job b from one on."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests import libvirt_host, openstack_site, proxmox_site
from tests.emission_services import Asked, HandClock, Said, said, serving
from tests.kubernetes_api import NAMESPACES, NODES, PODS, ROLE_BINDINGS, TOKEN, kubernetes
from tests.kubernetes_objects import finished, namespace, node, pod

from kwhere.resource_managers.registry import find_managers
from kwhere.resource_managers.resource_manager import ResourceManager

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
ONE, TWO = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
NOWHERE = "http://127.0.0.1:9"


@dataclass
class Site:
    """A manager, and how its service is changed."""

    manager: ResourceManager
    clock: HandClock
    absent: ResourceManager
    """The same where nobody answers."""
    speak_nonsense: Callable[[], None]
    leave: Callable[[], None] | None = None
    """Bob leaves his project; None: this manager knows of no members."""
    opened: list[ResourceManager] = field(default_factory=list)


@dataclass(frozen=True)
class Kind:
    """One manager, and whether it can tell of the past."""

    name: str
    start: Callable[[Path], AbstractContextManager[Site]]
    remembers: bool = True


def _build(manager: str, clock: HandClock, **settings: object) -> ResourceManager:
    entry = {"manager": manager, "cluster": "c1", **settings}
    (built,) = find_managers(outside=()).build([entry], clock)
    return built.source


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _program(place: Path, name: str, script: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (place / name).chmod(0o755)


_FIELDS = "JobID JobIDRaw Start End State User UID Account NodeList AllocTRES JobName"
_SACCT = """\
[ "$1" = --helpformat ] && { echo '%s'; exit; }
for word; do case $word in --delimiter=*) d=${word#*=};; --format=*) f=${word#*=};; esac; done
f="$f," awk -v d="$d" 'BEGIN { n = split(ENVIRON["f"], names, ",") - 1 }
  { split($0, pairs, " "); delete said; for (i in pairs) { split(pairs[i], kv, ";"); said[kv[1]] = kv[2] }
    line = ""; for (i = 1; i <= n; i++) line = line (i > 1 ? d : "") said[names[i]]; print line }' %s/jobs"""


@contextmanager
def slurm(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    a = f"JobIDRaw;1 JobID;1 Start;{_seconds(NOON)} End;{_seconds(ONE)} State;COMPLETED User;alice UID;1 NodeList;n1"
    b = f"JobIDRaw;2 JobID;2 Start;{_seconds(ONE)} End;Unknown State;RUNNING User;bob UID;2 NodeList;n1"
    (place / "jobs").write_text(f"{a}\n{b}\n")
    (place / "members").write_text("cfd||root\ncfd|alice|\ncfd|bob|\n")
    _program(place, "sacct", _SACCT % (_FIELDS, place))
    _program(place, "squeue", "exit 0")
    _program(place, "sacctmgr", f'case "$*" in *assoc*) cat {place}/members;; *) echo "cfd|Fluids";; esac')
    _program(
        place, "scontrol", 'case "$*" in *config*) echo "ClusterName = big";; *) echo "NodeName=n1 State=IDLE";; esac'
    )
    empty = place / "empty"
    empty.mkdir()
    yield Site(
        _build("slurm", clock, programs_dir=place),
        clock,
        _build("slurm", clock, programs_dir=empty),
        lambda: _program(place, "sacct", f"[ \"$1\" = --helpformat ] && {{ echo '{_FIELDS}'; exit; }}; echo nonsense"),
        lambda: _write(place / "members", "cfd||root\ncfd|alice|\n"),
    )


@contextmanager
def slurmrestd(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    members = ["alice", "bob"]

    def job(number: int, user: str, state: str, start: datetime, end: datetime | None) -> dict[str, Any]:
        times = {"start": _seconds(start), "end": 0 if end is None else _seconds(end), "submission": _seconds(start)}
        return {"job_id": number, "user": user, "state": {"current": state}, "time": times, "nodes": "n1"}

    def route(asked: Asked) -> Said:
        last = asked.path.rsplit("/", 1)[-1]
        if asked.path.startswith("/slurm/"):
            return said({"nodes": [{"name": "n1", "state": "idle"}]} if last == "nodes" else {"jobs": []})
        documents: dict[str, object] = {
            "jobs": {"jobs": [job(1, "alice", "COMPLETED", NOON, ONE), job(2, "bob", "RUNNING", ONE, None)]},
            "associations": {"associations": [{"account": "cfd", "user": user} for user in ("", *members)]},
            "accounts": {"accounts": [{"name": "cfd", "description": "Fluids"}]},
        }
        return said(documents[last])

    token = place / "token"
    token.write_text("x")
    with serving(route, clock) as service:
        rest = {"token_file": str(token)}
        yield Site(
            _build("slurm", clock, rest={**rest, "url": service.url}),
            clock,
            _build("slurm", clock, rest={**rest, "url": NOWHERE}),
            lambda: setattr(service, "fault", Said(b"<html>")),
            lambda: members.remove("bob"),
        )


def _oar_jobs() -> list[dict[str, Any]]:
    a = {"Job_Id": 1, "owner": "alice", "state": "Terminated", "startTime": _seconds(NOON), "stopTime": _seconds(ONE)}
    b = {"Job_Id": 2, "owner": "bob", "state": "Running", "startTime": _seconds(ONE), "stopTime": 0}
    return [a, b]


@contextmanager
def oar(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    (place / "jobs").write_text(json.dumps({str(job["Job_Id"]): job for job in _oar_jobs()}))
    _program(place, "run", f'case $1 in oarstat) cat {place}/jobs;; *) echo "[]";; esac')
    yield Site(
        _build("oar", clock, command_prefix=[str(place / "run")]),
        clock,
        _build("oar", clock, command_prefix=[str(place / "nothing")]),
        lambda: _program(place, "run", "echo nonsense"),
    )


@contextmanager
def oar_rest(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)

    def route(asked: Asked) -> Said:
        return said({"items": _oar_jobs() if "jobs" in asked.path else []})

    with serving(route, clock) as service:
        yield Site(
            _build("oar", clock, url=service.url),
            clock,
            _build("oar", clock, url=NOWHERE),
            lambda: setattr(service, "fault", Said(b"<html>")),
        )


@contextmanager
def openstack(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    secret = place / "secret"
    secret.write_text(openstack_site.PASSWORD)
    starts = {"created": NOON.isoformat(), "OS-SRV-USG:launched_at": NOON.isoformat()}
    later = {"created": ONE.isoformat(), "OS-SRV-USG:launched_at": ONE.isoformat()}
    cloud = openstack_site.Cloud(
        servers=[openstack_site.server(2, **later)],
        deleted=[openstack_site.ended(1, "2026-11-29T13:00:00", **starts)],
    )
    words = {"username": "kwhere", "secret_file": str(secret), "project": "admin"}
    with openstack_site.serving(cloud) as running:
        yield Site(
            _build("openstack", clock, auth_url=running.url, **words),
            clock,
            _build("openstack", clock, auth_url=NOWHERE, **words),
            lambda: cloud.bodies.update({"/v2.1/servers/detail": b"<html>"}),
            lambda: cloud.assignments.clear(),
        )


@contextmanager
def kubernetes_api(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    token = place / "token"
    token.write_text(TOKEN)
    with kubernetes() as api:
        api.put(NODES, node("n1"))
        api.put(NAMESPACES, namespace("team-a"))
        binding = {"name": "bob", "namespace": "team-a", "annotations": {"user": "bob", "role": "edit"}}
        api.put(ROLE_BINDINGS, {"metadata": binding})
        a = pod("a", status={**finished("Succeeded", ONE.isoformat()), "startTime": NOON.isoformat()})
        api.put(PODS, a)
        api.put(PODS, pod("b", status={"startTime": ONE.isoformat()}))

        def leave() -> None:
            api.delete(ROLE_BINDINGS, "bob", "team-a")
            clock.ahead(hours=1)

        def speak_nonsense() -> None:
            api.forget()
            api.faults.html = True

        words = {"http": {"token_file": str(token)}}
        yield Site(
            _build("kubernetes", clock, url=api.url, **words),
            clock,
            _build("kubernetes", clock, url=NOWHERE, **words),
            speak_nonsense,
            leave,
        )


@contextmanager
def proxmox(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    token = place / "token"
    token.write_text(proxmox_site.TOKEN)
    site = proxmox_site.Proxmox(guests=[proxmox_site.machine(100)], configs={"qemu/100": proxmox_site.config()})
    site.acl = [{"path": "/pool/cfd", "type": "user", "ugid": "bob@pve", "roleid": "PVEVMUser", "propagate": 1}]
    with proxmox_site.serving(site) as running:
        yield Site(
            _build("proxmox", clock, url=running.url, token_file=str(token)),
            clock,
            _build("proxmox", clock, url=NOWHERE, token_file=str(token)),
            lambda: site.bodies.update({"/cluster/resources": b"<html>"}),
            lambda: site.acl.clear(),
        )


@contextmanager
def libvirt(place: Path) -> Iterator[Site]:
    clock = HandClock(TWO)
    file = place / "host.xml"
    uri = libvirt_host.play_host(file, [libvirt_host.domain(1, "cfd-alice-1")])
    yield Site(
        _build("libvirt", clock, hosts={"hv1": uri}),
        clock,
        _build("libvirt", clock, hosts={"hv1": f"test://{place}/nothing.xml"}),
        lambda: _write(file, "nonsense"),
    )


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("slurm", slurm),
        Kind("slurmrestd", slurmrestd),
        Kind("oar", oar),
        Kind("oar_rest", oar_rest),
        Kind("openstack", openstack),
        Kind("kubernetes", kubernetes_api),
        Kind("proxmox", proxmox, remembers=False),
        Kind("libvirt", libvirt, remembers=False),
    )
}
