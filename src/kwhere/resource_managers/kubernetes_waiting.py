"""A pod that has not begun on a node: what it asks for and why it waits. Pure."""

from dataclasses import replace

from kwhere.core.managed import WaitingUnit
from kwhere.devices.json_answer import JsonValue, elements, finite, member, text
from kwhere.discovery.kubernetes import MANAGER
from kwhere.discovery.kubernetes_objects import condition, instant, name_of
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.kubernetes_gpus import NO_TYPES
from kwhere.resource_managers.kubernetes_resources import allocation_of, pod_amounts
from kwhere.resource_managers.kubernetes_users import PodUsers

_PENDING = "Pending"
_LONGEST_WORD = 300


def read_waiting(cluster: str, item: JsonValue, users: PodUsers) -> WaitingUnit | None:
    """Return a pod that is pending; None for one that is over, or whose phase says nothing."""
    if text(member(item, "status", "phase")) != _PENDING:
        return None
    namespace = text(member(item, "metadata", "namespace"))
    priority = finite(member(item, "spec", "priority"))
    return WaitingUnit(
        cluster=cluster,
        manager=MANAGER,
        unit=unit_id(text(member(item, "metadata", "uid"))),
        state=_PENDING.lower(),
        name=name_of(item),
        user=users.user_of(item),
        project=namespace,
        queue=namespace,
        reason=_reason(item),
        submitted_at=instant(member(item, "metadata", "creationTimestamp")),
        priority=None if priority is None else float(priority),
        asked=replace(allocation_of(pod_amounts(item), NO_TYPES), nodes=1),
    )


def _reason(item: JsonValue) -> str | None:
    """Return what keeps it: its gates, else why it is on no node, else why its containers do not start."""
    gates = [name for gate in elements(member(item, "spec", "schedulingGates")) if (name := text(member(gate, "name")))]
    if gates:
        return f"gated by {', '.join(gates)}"[:_LONGEST_WORD]
    scheduled = condition(item, "PodScheduled")
    if member(scheduled, "status") == "False":
        words = [text(member(scheduled, "reason")), text(member(scheduled, "message"))]
        return ": ".join(" ".join(word.split()) for word in words if word)[:_LONGEST_WORD] or None
    kinds = ("initContainerStatuses", "containerStatuses")
    statuses = [status for kind in kinds for status in elements(member(item, "status", kind))]
    waits = [text(member(status, "state", "waiting", "reason")) for status in statuses]
    return next((word[:_LONGEST_WORD] for word in waits if word), None)
