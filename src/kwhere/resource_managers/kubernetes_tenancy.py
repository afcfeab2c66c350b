"""Whose a namespace is: Kubeflow's profiles and contributors, or what a site writes on namespaces. And notebooks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kwhere.core.managed import Account, Accounts, ManagerUnit, Membership
from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.resource_managers.kubernetes_objects import annotations_of, instant, labels_of, name_of

_STOPPED = "kubeflow-resource-stopped"
_ACTIVITY = "notebooks.kubeflow.org/last-activity"
_PART_OF = ("app.kubernetes.io/part-of", "kubeflow-profile")


@dataclass(frozen=True, slots=True)
class NamespaceKeys:
    """Labels or annotations of namespaces that tell whose they are; "" for none."""

    user: str = ""
    project: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose the pods of a namespace are."""

    user: str | None = None
    group: str | None = None
    project: str | None = None
    """None: the namespace itself."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """A Kubeflow notebook; times are aware UTC in RFC 3339, "" where there is none."""

    state: str
    stopped_at: str = ""
    last_activity_at: str = ""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """All that is known of namespaces, and of notebooks by namespace and name."""

    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    notebooks: Mapping[tuple[str, str], Notebook] = field(default_factory=dict)
    members: frozenset[tuple[str, str]] = frozenset()
    """User and namespace of everyone who may work there besides its owner."""

    def of(self, unit: ManagerUnit) -> ManagerUnit:
        """Return a unit with its user, project and the state of its notebook."""
        namespace = unit.queue or ""
        tenant = self.tenants.get(namespace)
        notebook = self.notebooks.get((namespace, unit.tags.get("notebook", "")))
        if tenant is None and notebook is None:
            return unit
        tenant = tenant or Tenant()
        return replace(
            unit,
            user=unit.user or tenant.user,
            group=tenant.group,
            project=tenant.project or unit.project,
            tags=unit.tags if notebook is None else {**unit.tags, **_notebook_tags(notebook)},
        )

    def accounts(self) -> Accounts:
        """Return a project for each namespace, or what the site calls it, and who may work in it."""
        parents = {name: tenant.project or name for name, tenant in self.tenants.items()}
        owners = {(tenant.user, parents[name]) for name, tenant in self.tenants.items() if tenant.user}
        others = {(user, parents.get(namespace, namespace)) for user, namespace in self.members}
        return Accounts(
            tuple(Account(name) for name in sorted(set(parents.values()))),
            tuple(Membership(user, project) for user, project in sorted(owners | others)),
        )


def read_tenants(
    namespaces: Iterable[JsonValue], profiles: Iterable[JsonValue], keys: NamespaceKeys
) -> dict[str, Tenant]:
    """Return whose each namespace is: the site's own label first, then the profile, then Kubeflow's annotation."""
    owners = {name_of(profile): _profile_owner(profile) for profile in profiles}
    tenants = {}
    for item in namespaces:
        name, facts = name_of(item), {**annotations_of(item), **labels_of(item)}
        if not name:
            continue
        owner = owners.pop(name, None) or _annotated_owner(item)
        tenants[name] = Tenant(
            user=facts.get(keys.user) or owner.user,
            group=facts.get(keys.group) or owner.group,
            project=facts.get(keys.project) or None,
        )
    return {**{name: owner for name, owner in owners.items() if name}, **tenants}


def read_notebooks(items: Iterable[JsonValue]) -> dict[tuple[str, str], Notebook]:
    """Return notebooks by namespace and name. One that was stopped is no longer running, whatever else counts it."""
    return {(text(member(item, "metadata", "namespace")), name_of(item)): _notebook(item) for item in items}


def read_members(bindings: Iterable[JsonValue]) -> frozenset[tuple[str, str]]:
    """Return user and namespace of Kubeflow's contributors: role bindings that it annotates with `user` and `role`."""
    found = set()
    for item in bindings:
        facts, namespace = annotations_of(item), text(member(item, "metadata", "namespace"))
        if facts.get("user") and facts.get("role") and namespace:
            found.add((facts["user"], namespace))
    return frozenset(found)


def _profile_owner(profile: JsonValue) -> Tenant:
    kind, name = (text(member(profile, "spec", "owner", word)) for word in ("kind", "name"))
    if kind == "Group":
        return Tenant(group=name or None)
    return Tenant(user=name or None) if kind in ("User", "") else Tenant()


def _annotated_owner(namespace: JsonValue) -> Tenant:
    """The profile controller writes the owner on the namespace too, for those who may not read profiles."""
    key, word = _PART_OF
    if labels_of(namespace).get(key) != word:
        return Tenant()
    return Tenant(user=annotations_of(namespace).get("owner") or None)


def _notebook(item: JsonValue) -> Notebook:
    annotations = annotations_of(item)
    ready = member(item, "status", "readyReplicas")
    if _STOPPED in annotations:
        word = "stopped"
    else:
        word = "running" if isinstance(ready, int | float) and ready > 0 else "starting"
    return Notebook(word, _stamp(annotations.get(_STOPPED)), _stamp(annotations.get(_ACTIVITY)))


def _stamp(word: str | None) -> str:
    found = instant(word)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ") if found else ""


def _notebook_tags(notebook: Notebook) -> dict[str, str]:
    told = {
        "notebook_state": notebook.state,
        "notebook_stopped_at": notebook.stopped_at,
        "notebook_last_activity_at": notebook.last_activity_at,
    }
    return {name: word for name, word in told.items() if word}
