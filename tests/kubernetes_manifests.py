"""The shipped manifests, filled in for a site of the tests."""

from typing import Any

import yaml

from kwhere.manifests.parts import Site, render

SITE = Site(
    image="registry.example/kwhere:1",
    cluster="k1",
    control_plane=("192.0.2.1", "2001:db8::/64"),
    host="kwhere.example.org",
    proxy_secret="secret-of-the-tests-0123456789",
)


def documents(*parts: str, site: Site = SITE) -> list[Any]:
    """Return the objects of some parts, in order."""
    return list(yaml.safe_load_all(render(parts, site)))


def by_name(*parts: str, site: Site = SITE) -> dict[tuple[str, str], Any]:
    """Return the objects of some parts by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in documents(*parts, site=site)}
