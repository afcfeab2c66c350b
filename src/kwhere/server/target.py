"""A target: where one agent's ledger is, and what the site says of it."""

from dataclasses import dataclass

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
    """Node that must answer there; None: whichever does."""
    may_see_credentials: bool = True
    """False for a host that only discovery named."""
    ceiling_mw: int = int(DEFAULT_CEILING_W * 1000)
    """Largest plausible power of a component of a node, milliwatts."""

    @property
    def key(self) -> str:
        """Return its identity: what cursors are kept under."""
        return f"{self.cluster} {self.url}"
