"""The manifest of rights: all that is asked for, and nothing else."""

from pathlib import Path
from typing import Any

import yaml

from kwhere.resource_managers import kubernetes_api

PACKAGING = Path(__file__).parents[3] / "packaging" / "kubernetes"
LISTED = (
    kubernetes_api.PODS,
    kubernetes_api.NODES,
    kubernetes_api.NAMESPACES,
    kubernetes_api.PROFILES,
    kubernetes_api.NOTEBOOKS,
    kubernetes_api.ROLE_BINDINGS,
)


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((PACKAGING / name).read_text()))


def group_and_kind(path: str) -> tuple[str, str]:
    parts = path.strip("/").split("/")
    return ("" if parts[0] == "api" else parts[1], parts[-1])


def test_the_role_has_the_rights_that_are_used_and_no_other() -> None:
    role = next(one for one in documents("server-rbac.yaml") if one["kind"] == "ClusterRole")

    rights = {
        (group, kind, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }

    assert rights == {(*group_and_kind(path), "list") for path in LISTED} | {("", "pods", "watch")}


def test_the_role_is_bound_to_the_account_that_has_the_token() -> None:
    bound = next(one for one in documents("server-rbac.yaml") if one["kind"] == "ClusterRoleBinding")
    account = next(one for one in documents("server-rbac.yaml") if one["kind"] == "ServiceAccount")
    (secret,) = documents("server-token.yaml")

    assert bound["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": account["metadata"]["namespace"]}
    ]
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account["metadata"]["name"]}
