"""The pods of a cluster as last heard of, and those that are gone: the API forgets a pod once it is deleted."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from kwhere.core.managed import ManagerUnit, WaitingUnit
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.kubernetes_pods import DELETED, Pod

MOST_GONE = 100_000


class PodMemory:
    """Units by the uid of their pod. Not thread-safe."""

    def __init__(self, kept: timedelta) -> None:
        """Pods that are gone are kept for so long."""
        self._kept = kept
        self._here: dict[str, ManagerUnit] = {}
        self._gone: dict[str, ManagerUnit] = {}
        self._deleted: set[str] = set()
        """Those of the gone whose end was told; the others were missing in a list."""
        self._waiting: dict[str, WaitingUnit] = {}
        self._unread: set[str] = set()

    def relist(self, pods: Iterable[Pod], now: datetime) -> None:
        """Take in all there are. One that is missing was deleted since, nobody saw when: it ends now at the latest."""
        listed: dict[str, ManagerUnit] = {}
        self._waiting, unread = {}, set[str]()
        for pod in pods:
            if pod.unit is not None:
                listed[pod.uid] = pod.unit
            elif pod.waiting is not None:
                self._waiting[pod.uid] = pod.waiting
            else:
                unread.add(pod.uid)
        self._unread = {uid for uid in unread if uid}
        self._deleted -= listed.keys()  # a list is the truth of now
        before, self._here = self._here, listed
        for uid, unit in before.items():
            if uid in unread:
                self._here[uid] = unit
            elif uid not in listed:
                self._gone[uid] = _close(unit, now)

    def change(self, pod: Pod) -> ManagerUnit | None:
        """Take in a pod that is new or another than before; returns its unit.

        A uid never comes back: whoever was told to be deleted stays so, though the past is told again.
        """
        self._waiting.pop(pod.uid, None)
        if pod.uid in self._deleted:
            return self._gone.get(pod.uid)
        if pod.unit is not None:
            self._here[pod.uid] = pod.unit
        elif pod.waiting is not None:
            self._waiting[pod.uid] = pod.waiting
        return self._here.get(pod.uid)

    def delete(self, pod: Pod, now: datetime) -> ManagerUnit | None:
        """Take in that a pod is gone; returns its unit, ended when that was heard first."""
        if pod.uid in self._deleted:
            return self._gone.get(pod.uid)
        unit = pod.unit or self._here.get(pod.uid)
        self._here.pop(pod.uid, None)
        self._waiting.pop(pod.uid, None)
        if unit is None:
            return None
        self._gone[pod.uid] = closed = _close(unit, min(now, pod.gone_at or now), pod.fate)
        self._deleted.add(pod.uid)
        return closed

    def forget(self, now: datetime) -> None:
        """Let go of those that went too long ago, and of the oldest of too many."""
        oldest = now - self._kept
        old = [uid for uid, unit in self._gone.items() if unit.ended_at is not None and unit.ended_at < oldest]
        for uid in old + list(self._gone)[: max(0, len(self._gone) - MOST_GONE)]:
            self._gone.pop(uid, None)
            self._deleted.discard(uid)

    def here(self) -> Iterator[ManagerUnit]:
        """Yield the units that the API still knows, finished ones too."""
        yield from self._here.values()

    def waiting(self) -> Iterator[WaitingUnit]:
        """Yield the pods that have not begun on a node."""
        yield from self._waiting.values()

    def unread(self) -> frozenset[str]:
        """Return the ids of the units of the newest list that are there and could not be read."""
        return frozenset(unit_id(uid) for uid in self._unread)

    def units(self) -> Iterator[ManagerUnit]:
        """Yield all units; of one that went and is here again, as static pods do, the later word comes last."""
        yield from self._gone.values()
        yield from self._here.values()


def _close(unit: ManagerUnit, now: datetime, fate: str = "") -> ManagerUnit:
    if unit.ended_at is not None:
        return unit
    return replace(unit, state=fate or DELETED, ended_at=max(unit.started_at, now))
