"""A target: where one agent's ledger is, and what the site says of it."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_CEILING_W = 20_000.0


@dataclass(frozen=True, slots=True)
class Target:
    """One agent to be read."""

    cluster: str
    url: str
    """Scheme, host and port, without a path."""
    group: str = ""
    """Name of the target group, whose settings say how it is spoken to."""
    node: str | None = None
    """Node that must answer there; None: the one its certificate names."""
    may_see_credentials: bool = True
    """False for a host that only discovery named."""
    ceiling_mw: int = int(DEFAULT_CEILING_W * 1000)
    """Largest plausible power of a component of a node, milliwatts."""
    server_name: str | None = None
    """Name that its certificate must carry instead of the address's host; None: the group's, else the host."""
    checks_name: bool = False
    """Whether the certificate's name, which is the address's host, must be the node's."""

    @property
    def key(self) -> str:
        """Return its identity: what cursors are kept under."""
        return f"{self.cluster} {self.url}"

    def expected_node(self) -> str | None:
        """Return the node, or the host name that stands for it, whose pages may come from here; None: any."""
        if self.node is not None:
            return self.node
        parts = urlsplit(self.url)
        if not self.checks_name or parts.scheme != "https" or parts.hostname is None or _is_nobodys(parts.hostname):
            return None
        return parts.hostname

    def may_serve(self, node: str) -> bool:
        """Return whether a page of `node` may come from here: `n1` and `n1.example` are one, two domains are not."""
        expected = self.expected_node()
        if expected is None or expected == node:
            return True
        if self.node is not None:
            return False
        ours, theirs = expected.lower().split(".", 1), node.lower().split(".", 1)
        return ours[0] == theirs[0] and (len(ours) == 1 or len(theirs) == 1 or ours == theirs)


def _is_nobodys(host: str) -> bool:
    """An address, or `localhost`, is no node's name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
