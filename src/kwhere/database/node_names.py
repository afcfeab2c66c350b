"""Whether two names are one host's: a manager may say `n1` where its agent says `n1.cluster.example`. Pure."""

from collections.abc import Collection, Iterable

Places = Collection[tuple[int, str]]
"""Id of a cluster and name of a host there."""


def short_name(node: str) -> str:
    """Return what a node is found by: its name up to the first dot, in lower case."""
    return node.partition(".")[0].lower()


def is_same_host(one: str, other: str) -> bool:
    """Return whether one name is the other's, or its beginning up to a dot; case does not matter."""
    one, other = one.lower(), other.lower()
    if one == other:
        return True
    short, longer = sorted((one, other), key=len)
    return bool(short) and longer.startswith(f"{short}.") and not short.replace(".", "").isdigit()


def choose_hosts(name: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return those of `named` that `name` means: the same name alone where there is one, else every one alike."""
    alike = sorted({other for other in named if is_same_host(name, other)})
    exact = [other for other in alike if other == name] or [other for other in alike if other.lower() == name.lower()]
    return tuple(exact or alike)


class HostBook:
    """Hosts of clusters, found by either of their names."""

    def __init__(self, places: Places) -> None:
        self._by_short: dict[tuple[int, str], list[str]] = {}
        for cluster_id, name in places:
            self._by_short.setdefault((cluster_id, short_name(name)), []).append(name)

    def hosts(self, cluster_id: int, name: str) -> tuple[str, ...]:
        """Return the hosts of a cluster that a name means: several where it could be any of them."""
        return choose_hosts(name, self._by_short.get((cluster_id, short_name(name)), ()))
