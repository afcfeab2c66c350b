"""Frozen records of what the inventory and the directory say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RackRecord:
    """A rack: its nodes, what they draw now and what they may."""

    cluster: str
    rack: str
    nodes: int
    """Nodes of the inventory that report or did, without retired ones."""
    up: int
    power_uw: int | None
    """Sum over nodes that are up, without guests; None where none is. Less than the rack draws where `up` < `nodes`."""
    limit_watts: float | None
    """What the rack may draw; None: nobody says."""
    is_limit_summed: bool
    """Whether the limit is the sum of its nodes' limits, for want of one of the rack."""


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """A user as the directory knows them."""

    cluster: str
    user: str
    full_name: str | None = None
    mail: str | None = None
    language: str | None = None
    opted_out: bool = False

    @property
    def shown_name(self) -> str:
        """Return what to call them: the full name, else the login."""
        return self.full_name or self.user

    @property
    def mail_to(self) -> str | None:
        """Return where mail may go; None for those who opted out or have no address."""
        return None if self.opted_out else self.mail
