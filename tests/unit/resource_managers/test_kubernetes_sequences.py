"""Whatever breaks on the way, the account of pods is that of somebody who heard everything at once and whole."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emission_services import HandClock
from tests.kubernetes_objects import STARTED, pod
from tests.memory_kubernetes import Fault, MemoryAccess, MemoryKubernetes, problem

from kwhere.core.errors import KwhereError
from kwhere.core.managed import ManagerUnit
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings

NOW = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)
GONE_AT = "2026-11-29T12:20:00Z"
Step = Callable[["Site"], None]


def manager_of(cluster: MemoryKubernetes, clock: HandClock) -> KubernetesManager:
    source = KubernetesApi(
        cast(Access, MemoryAccess(cluster)), clock, lambda seconds: clock.ahead(seconds=seconds), page_size=2
    )
    return KubernetesManager(KubernetesSettings(manager="kubernetes", cluster="k1"), source, clock)


@dataclass
class Site:
    """A cluster, and what a server has written of it: as the pass does, cursor and units go together."""

    cluster: MemoryKubernetes = field(default_factory=MemoryKubernetes)
    clock: HandClock = field(default_factory=lambda: HandClock(NOW))
    written: dict[tuple[str, str], ManagerUnit] = field(default_factory=dict)
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.manager = manager_of(self.cluster, self.clock)

    def look(self, *, is_kept: bool = True) -> None:
        """Hear what changed; with `is_kept` false the server dies before it has written that."""
        self.clock.ahead(seconds=5)
        try:
            changes = self.manager.watch(self.cursor)
        except KwhereError:
            return
        if not is_kept:
            return
        told = {(unit.unit, unit.run): unit for unit in changes.units}
        if changes.is_relisted:
            for key, unit in self.written.items():
                if key not in told and unit.ended_at is None and unit.unit not in changes.unread:
                    told[key] = replace(unit, state="vanished", ended_at=self.clock.now)
        self.written |= told
        self.cursor = changes.cursor

    def restart(self) -> None:
        self.manager = manager_of(self.cluster, self.clock)


def shown(name: str, **changes: Any) -> dict[str, Any]:
    """Return a pod whose name has letters of several bytes in its labels, so that cuts fall within one."""
    found = pod(name, uid=f"uid-{name}", **changes)
    found["metadata"]["labels"] = {"team": "größe→日本"}
    return found


def ended(name: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 0, "startedAt": STARTED, "finishedAt": GONE_AT, "reason": "Completed"}}
    return {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}


NAMES = st.sampled_from("abcdef")
CHANGES = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(["Running", "Succeeded", "Pending"])),
    st.tuples(st.just("delete"), NAMES, st.just("")),
)


def change(cluster: MemoryKubernetes, what: tuple[str, str, str], born: dict[str, int]) -> None:
    """Let something happen to a pod; one that was deleted comes back under its name with another uid."""
    verb, letter, phase = what
    name = f"{letter}{born.get(letter, 0)}"
    uid = f"uid-{name}"
    if verb == "delete":
        if uid in cluster.pods:
            last = cluster.pods[uid]
            last["status"] |= ended(name)
            cluster.delete(uid)
            born[letter] = born.get(letter, 0) + 1
    elif phase == "Pending" and uid not in cluster.pods:
        cluster.put(shown(name, node="", status={"phase": "Pending", "startTime": None}))
    elif cluster.pods.get(uid, {}).get("status", {}).get("phase") != "Succeeded":
        cluster.put(shown(name, status={"phase": phase, **(ended(name) if phase == "Succeeded" else {})}))


def status(code: int, reason: str, **headers: str) -> Callable[[bytes], Fault]:
    return lambda body: Fault(json.dumps(problem(code, reason)).encode(), status=code, headers=headers)


def line(**event: Any) -> Callable[[bytes], Fault]:
    return lambda body: Fault(body[: body.find(b"\n") + 1] + json.dumps(event).encode() + b"\n")


FAULTS = st.one_of(
    st.integers(0, 3000).map(lambda at: lambda body: Fault(body[:at], breaks=True)),
    st.integers(0, 3000).map(lambda at: lambda body: Fault(body[:at])),  # ends early as if that were all
    st.sampled_from(
        [
            status(500, "InternalError"), status(503, "ServiceUnavailable"), status(401, "Unauthorized"),
            status(429, "TooManyRequests", **{"retry-after": "1"}), status(504, "Timeout"), status(403, "Forbidden"),
            line(type="ERROR", object=problem(500, "InternalError")),
            line(type="ERROR", object=problem(410, "Expired")),
            line(type="WHATEVER", object={}), line(type="BOOKMARK", object={"metadata": {}}), line(nothing=1),
            lambda body: Fault(body + b"<html>a proxy</html>\n"),
            lambda body: Fault(b"\x1f\x8b\x08" + body),
        ]
    ),
)  # fmt: skip
LOOKS = st.lists(
    st.tuples(
        st.lists(CHANGES, max_size=5), st.lists(FAULTS, max_size=3), st.sampled_from(["look", "die", "restart", "none"])
    ),
    max_size=8,
)


def play(site: Site, rounds: list[Any], *, compacts: bool = False, is_perfect: bool = False) -> None:
    born: dict[str, int] = {}
    site.look()
    for changes, faults, then in rounds:
        for what in changes:
            change(site.cluster, what, born)
            if is_perfect:
                site.look()
        if is_perfect:
            continue
        if compacts and then == "die":
            site.cluster.compact()
        site.cluster.faults = list(faults)
        if then == "restart":
            site.restart()
        if then != "none":
            site.look(is_kept=then != "die")
    site.cluster.faults = []
    for _ in range(6):  # whatever was wrong is over
        site.look()


@settings(max_examples=300)
@given(LOOKS)
def test_faults_change_nothing_where_the_history_is_kept(rounds: list[Any]) -> None:
    perfect, site = Site(), Site()
    play(perfect, rounds, is_perfect=True)

    play(site, rounds)

    # A pod that came and went while all had to be listed anew was in no list.
    told = {key: unit for key, unit in perfect.written.items() if key in site.written or site.cluster.lists == 1}
    for key, unit in told.items():
        mine = site.written[key]
        if mine.state == "vanished":  # missing in a list: nobody saw it end
            assert unit.ended_at is not None
        else:
            assert mine == unit
    assert site.written.keys() <= perfect.written.keys()


@settings(max_examples=150)
@given(LOOKS)
def test_what_lives_is_right_even_where_the_history_is_lost(rounds: list[Any]) -> None:
    perfect, site = Site(), Site()
    play(perfect, rounds, is_perfect=True)

    play(site, rounds, compacts=True)

    def living(of: Site) -> dict[tuple[str, str], ManagerUnit]:
        return {key: unit for key, unit in of.written.items() if unit.ended_at is None}

    assert living(site) == living(perfect)


@pytest.mark.parametrize("fault", [status(504, "Timeout"), status(500, "InternalError"), status(403, "Forbidden"),
    line(type="ERROR", object=problem(500, "InternalError"))])  # fmt: skip
def test_a_watch_that_never_works_ends_in_a_list(fault: Callable[[bytes], Fault]) -> None:
    site = Site()
    site.cluster.put(shown("a"))
    site.look()

    def watch_fails(body: bytes) -> Fault:
        return Fault(body) if b'"items"' in body else fault(body)

    site.cluster.put(shown("b"))
    site.cluster.faults = [watch_fails] * 300
    for _ in range(4):
        site.look()

    assert {unit.name for unit in site.written.values()} == {"a", "b"}


def test_an_api_whose_versions_went_back_is_listed_anew_at_once() -> None:
    site = Site()
    site.cluster.put(shown("a"))
    site.look()
    large = problem(504, "Timeout", details={"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1})

    def watch_fails(body: bytes) -> Fault:
        return Fault(body) if b'"items"' in body else Fault(json.dumps(large).encode(), status=504)

    site.cluster.put(shown("b"))
    site.cluster.faults = [watch_fails] * 300

    site.look()

    assert {unit.name for unit in site.written.values()} == {"a", "b"}


def test_a_deletion_that_is_heard_twice_ended_when_it_was_heard_first() -> None:
    site = Site()
    site.cluster.put(shown("a"))
    site.look()
    site.cluster.delete("uid-a")
    before = site.cursor
    site.look()
    (first,) = site.written.values()

    site.cursor = before
    site.look()

    assert first.state == "deleted"
    assert list(site.written.values()) == [first]
