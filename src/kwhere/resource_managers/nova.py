"""Nova: where the compute service is, and what it answers, in one microversion."""

from collections.abc import Mapping

from kwhere.core.errors import Unavailable
from kwhere.resource_managers.keystone import Keystone
from kwhere.resource_managers.openstack_settings import OpenStackSettings
from kwhere.resource_managers.rest_values import inner, objects, text
from kwhere.transport.credentials import check_base_url


class Nova:
    """The compute service of one region."""

    def __init__(self, keystone: Keystone, settings: OpenStackSettings) -> None:
        """Raises ConfigError for an address that would carry the token in the clear."""
        if settings.compute_url is not None:
            check_base_url(settings.compute_url, bearer=True)
        self._keystone = keystone
        self._settings = settings
        self._url: str | None = settings.compute_url

    def get(self, path: str, params: Mapping[str, str]) -> Mapping[str, object]:
        """Return Nova's answer in the microversion of the settings. Raises Unavailable and SourceError."""
        version = self._settings.microversion
        headers = {"OpenStack-API-Version": f"compute {version}", "X-OpenStack-Nova-API-Version": version}
        if self._url is None:
            self._url = compute_url_of(self._keystone.token_document(), self._settings)
        return self._keystone.ask(self._url.rstrip("/"), path, params, headers)


def compute_url_of(document: Mapping[str, object], settings: OpenStackSettings) -> str:
    """Return the address of the compute service in a token's catalogue. Raises Unavailable that says what there is."""
    found: dict[str, str] = {}
    for service in objects(inner(document, "token").get("catalog")):
        if service.get("type") != "compute":
            continue
        for endpoint in objects(service.get("endpoints")):
            region = text(endpoint.get("region_id")) or text(endpoint.get("region")) or ""
            url = text(endpoint.get("url"))
            if url is not None and endpoint.get("interface") == settings.interface:
                found.setdefault(region, url)
    if settings.region is None and len(found) == 1:
        return next(iter(found.values()))
    if settings.region in found:
        return found[settings.region]
    wanted = f"region {settings.region}" if settings.region is not None else "one region, or the setting region"
    there = ", ".join(sorted(found)) or "none"
    raise Unavailable("absent", f"catalogue: expected compute, {settings.interface}, {wanted}; found {there}")
