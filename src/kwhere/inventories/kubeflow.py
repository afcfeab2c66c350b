"""People from Kubeflow: owners of profiles and contributors; where a node stands, from labels of Kubernetes nodes."""

from collections.abc import Iterable

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.inventory import Inventory, InventoryNode, Person, parse_mail, parse_watts, plain
from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.discovery.kubernetes_objects import annotations_of, labels_of, name_of
from kwhere.inventories.source import InventoryPlugin, SourceSettings
from kwhere.resource_managers import kubernetes_api as api
from kwhere.resource_managers.kubernetes_access import find_access
from kwhere.resource_managers.kubernetes_access_settings import ClusterAccess
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_tenancy import read_members


class KubeflowSettings(SourceSettings, ClusterAccess):
    """How the cluster is reached, and which labels or annotations of nodes say where they stand."""

    contributors: bool = Field(default=True, description="Whether contributors are read, from role bindings.")
    rack_label: str = Field(default="", description="Label or annotation of nodes that names their rack; none: none.")
    type_label: str = Field(
        default="node.kubernetes.io/instance-type", description="Label or annotation of nodes that names their type."
    )
    power_limit_label: str = Field(
        default="", description="Label or annotation of nodes with the watts they may draw; none: none."
    )


class KubeflowSource:
    """Asks the API for profiles and role bindings, and for nodes where `rack_label` is set."""

    def __init__(self, settings: KubeflowSettings, clock: Clock) -> None:
        """Raises ConfigError."""
        self._settings = settings
        access = find_access(settings)
        access.read_token()
        self._api = KubernetesApi(access, clock, page_size=settings.page_size)

    def read(self) -> Inventory:
        """Return owners and contributors, and the nodes where they are asked for."""
        settings = self._settings
        users = {user for profile in self._api.list_all(api.PROFILES).items if (user := _owner(profile))}
        if settings.contributors:
            bindings = self._api.list_all(api.ROLE_BINDINGS).items
            users |= {found for user, _ in read_members(bindings) if (found := plain(user))}
        nodes = None
        if settings.rack_label or settings.power_limit_label:
            nodes = nodes_of(self._api.list_all(api.NODES).items, settings)
        return Inventory(nodes=nodes, people=tuple(_person(user, settings.cluster) for user in sorted(users)))

    def close(self) -> None:
        """Give back the connections."""
        self._api.close()


def nodes_of(items: Iterable[JsonValue], settings: KubeflowSettings) -> tuple[InventoryNode, ...]:
    """Return the nodes with what their labels and annotations say; a limit that is no number is left out."""
    found: dict[str, InventoryNode] = {}
    for item in items:
        name, facts = name_of(item), {**annotations_of(item), **labels_of(item)}
        if name:
            try:
                watts = parse_watts(facts.get(settings.power_limit_label))
            except ValueError:
                watts = None
            rack, kind = plain(facts.get(settings.rack_label)), plain(facts.get(settings.type_label))
            found.setdefault(name, InventoryNode(name, settings.cluster, rack, kind, watts))
    return tuple(found.values())


def _owner(profile: JsonValue) -> str | None:
    kind, name = (text(member(profile, "spec", "owner", word)) for word in ("kind", "name"))
    return plain(name) if kind in ("User", "") else None


def _person(user: str, cluster: str | None) -> Person:
    try:
        mail = parse_mail(user)
    except ValueError:
        mail = None
    return Person(user, cluster, mail=mail)


plugin = InventoryPlugin(
    "kubeflow", "People from Kubeflow's profiles and contributors.", KubeflowSettings, KubeflowSource
)
