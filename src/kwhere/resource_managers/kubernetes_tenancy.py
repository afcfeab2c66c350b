"""Whose a namespace is: Kubeflow's profiles and contributors, or what a site writes on namespaces."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kwhere.core.managed import Account, Accounts, ManagerUnit, Membership, WaitingUnit
from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.discovery.kubernetes_objects import annotations_of, labels_of, name_of
from kwhere.resource_managers.kubernetes_notebooks import Notebook
from kwhere.resource_managers.kubernetes_pipelines import PipelineRun

_U = TypeVar("_U", ManagerUnit, WaitingUnit)
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
class Tenancy:
    """All that is known of namespaces, of notebooks by namespace and name, and of runs of pipelines by id."""

    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    notebooks: Mapping[tuple[str, str], Notebook] = field(default_factory=dict)
    runs: Mapping[str, PipelineRun] = field(default_factory=dict)
    members: frozenset[tuple[str, str]] = frozenset()
    """User and namespace of everyone who may work there besides its owner."""
    workspaces: Mapping[tuple[str, str], Notebook] = field(default_factory=dict)
    """Notebooks of the second kind."""

    def of(self, unit: _U) -> _U:
        """Return a unit with its user, project, the state of its notebook and the name of its run."""
        namespace = unit.queue or ""
        tenant = self.tenants.get(namespace)
        more = self._tags(unit, namespace)
        if tenant is None and not more:
            return unit
        tenant = tenant or Tenant()
        return replace(
            unit,
            user=unit.user or tenant.user,
            group=tenant.group,
            project=tenant.project or unit.project,
            tags={**unit.tags, **more} if more else unit.tags,
        )

    def _tags(self, unit: ManagerUnit | WaitingUnit, namespace: str) -> dict[str, str]:
        notebook = self.notebooks.get((namespace, unit.tags.get("notebook", ""))) or self.workspaces.get(
            (namespace, unit.tags.get("workspace", ""))
        )
        run = self.runs.get(unit.tags.get("pipeline_run", ""))
        tags = {} if notebook is None else notebook.tags()
        if run is not None and run.namespace == namespace:  # a label is a user's own word
            tags["pipeline_run_name"] = run.name
        return tags

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
