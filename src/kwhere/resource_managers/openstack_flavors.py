"""Flavours by id, for a Nova so old that its servers only name theirs."""

from collections.abc import Iterable, Mapping

from kwhere.core.errors import Unavailable
from kwhere.resource_managers.nova import Nova
from kwhere.resource_managers.openstack_lists import compute_rows
from kwhere.resource_managers.openstack_servers import flavors_by_id
from kwhere.resource_managers.rest_values import inner, text

Record = Mapping[str, object]


class FlavorBook:
    """Flavours with their extra specs; one that is deleted stays known, for its servers are still of that size."""

    def __init__(self, nova: Nova, page_size: int) -> None:
        self._nova = nova
        self._page_size = page_size
        self._known: dict[str, Record] = {}
        self._gone: set[str] = set()

    def refresh(self) -> None:
        """Ask for all flavours, and for the extra specs of those that are new. Raises Unavailable and SourceError."""
        rows = compute_rows(self._nova, "/flavors/detail", "flavors", {"is_public": "None"}, self._page_size)
        for flavor_id, flavor in flavors_by_id(list(rows)).items():
            known = self._known.get(flavor_id)
            specs = self._specs(flavor_id) if known is None else inner(known, "extra_specs")
            self._known[flavor_id] = {**flavor, "extra_specs": specs}

    def of(self, records: Iterable[Record]) -> Mapping[str, Record]:
        """Return the flavours, after asking for those that these servers name and no list has."""
        named = {text(inner(record, "flavor").get("id")) for record in records}
        for flavor_id in sorted(name for name in named if name):
            if flavor_id not in self._known and flavor_id not in self._gone:
                self._look_up(flavor_id)
        return self._known

    def _look_up(self, flavor_id: str) -> None:
        try:
            flavor = inner(self._nova.get(f"/flavors/{flavor_id}", {}), "flavor")
        except Unavailable as error:
            if error.reason not in ("absent", "permission"):
                raise
            self._gone.add(flavor_id)
            return
        self._known[flavor_id] = {**flavor, "extra_specs": self._specs(flavor_id)}

    def _specs(self, flavor_id: str) -> Record:
        try:
            return inner(self._nova.get(f"/flavors/{flavor_id}/os-extra_specs", {}), "extra_specs")
        except Unavailable as error:
            if error.reason not in ("absent", "permission"):
                raise
            return {}
