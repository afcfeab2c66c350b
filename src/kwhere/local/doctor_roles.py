"""What the roles that run here know of meters: the agent of its own sources, the server of nodes that disagree."""

from collections.abc import Mapping
from typing import Any

from kwhere.core.errors import KwhereError
from kwhere.local.doctor import Check, Examination, missing, ok, warning
from kwhere.local.doctor_place import Here

NOT_A_FAULT = frozenset({"absent", "unconfigured", "off", "spare", "on_ac", "recorded", "released", "asleep"})
"""Reasons of sources that are simply not here."""
NODES_NAMED = 5
NODES_ASKED = 1000
CLUSTERS_NAMED = 20
_LACKS = "answers, and says nothing of its meters"


def check_agent_meters(here: Here) -> list[Check]:
    """Say which sources the running agent reads, and which it lost; nothing where none runs."""
    try:
        answer = here.ask_agent({"get": "meters"})
    except KwhereError:
        return []
    sources = answer.get("sources")
    if not isinstance(sources, dict):
        return [missing("agent_meters", _LACKS, "It is of an older version.")]
    up = [name for name, source in sources.items() if source.get("up")]
    lost = [
        f"{name} ({source.get('reason') or 'no reason told'})" for name, source in sources.items() if _is_lost(source)
    ]
    found = f"reads {', '.join(up) or 'nothing'}{_speakers(answer)}"
    if lost:
        why = "What it lost is a gap until it answers again; the lines of meters above say what mends it."
        return [warning("agent_meters", f"{found}; not {', '.join(lost)}", why)]
    return [ok("agent_meters", found)]


def check_node_meters(here: Here) -> list[Check]:
    """Name the nodes of the running server whose meters disagree by more than a tenth; nothing where none runs."""
    if not (here.state_dir / "url").exists():
        return []
    try:
        nodes = here.ask_server(f"/nodes?limit={NODES_ASKED}").get("items") or []
    except KwhereError:
        return []
    looked = [node for node in nodes if node.get("meters_agreement")]
    off = [node for node in looked if node["meters_agreement"].get("disagrees")]
    if not looked:
        return [missing("nodes_meters", "not compared yet", "The server looks at each node's last half hour.")]
    if not off:
        checked = sum(bool(node["meters_agreement"].get("checked")) for node in looked)
        return [ok("nodes_meters", f"no node's meters disagree ({checked} of {len(looked)} have a second source)")]
    return [_disagrees(node) for node in off[:NODES_NAMED]]


def check_curves(here: Here) -> list[Check]:
    """Say how far back the running server's curves go, by cluster; nothing where none runs, or it is older."""
    if not (here.state_dir / "url").exists():
        return []
    try:
        stores = here.ask_server("/health").get("series") or []
    except KwhereError:
        return []
    return [_curves(store) for store in stores[:CLUSTERS_NAMED]]


def _curves(store: Mapping[str, Any]) -> Check:
    cluster, since = store.get("cluster"), str(store.get("kept_since") or "")[:16].replace("T", " ")
    if not since:
        why = "Its store has no sample of its agents yet, does not answer, or was not asked yet."
        return missing("curves", f"{cluster}: how far back they go is not known", why)
    found = f"{cluster}: kept since {since} UTC"
    limits = store.get("limits")
    oldest = "" if store.get("by") == "time" else ", the oldest sample"
    return ok("curves", f"{found}{oldest}; the store keeps {limits}" if limits else f"{found}{oldest}")


def _disagrees(node: Mapping[str, Any]) -> Check:
    agreement = node["meters_agreement"]
    causes = [str(cause) for cause in agreement.get("causes") or []]
    why = f"{agreement.get('sentence')}" + (f" It may be: {'; or '.join(causes)}." if causes else "")
    return warning("nodes_meters", f"{node.get('cluster')}/{node.get('node')}: its meters disagree", why)


def _is_lost(source: Mapping[str, Any]) -> bool:
    return not source.get("up") and source.get("reason") not in NOT_A_FAULT


def _speakers(answer: Mapping[str, Any]) -> str:
    methods = answer.get("methods") or {}
    words = [f"{component} by {method.get('source')}" for component, method in methods.items()]
    return f"; {', '.join(words)}" if words else ""


CHECKS = (
    Examination("curves", "Here", check_curves),
    Examination("agent_meters", "Here", check_agent_meters),
    Examination("nodes_meters", "Here", check_node_meters),
)
