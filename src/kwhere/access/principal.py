"""Who asks: a name, the roles it has here, how we know, and what it may see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kwhere.access.roles import NOBODY_TO_ASK, Role
from kwhere.core.errors import NotPermitted
from kwhere.database.visibility import EVERYTHING, NOTHING, AccountName, Visibility

PRINCIPAL_KEY = "kwhere.principal"
"""Where the door puts the principal in an ASGI scope."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody at the door."""

    name: str
    roles: frozenset[Role]
    why: str
    """How we know, for pages and the audit log: `API token 3f9a of alice`."""
    visibility: Visibility = NOTHING
    contact: str = NOBODY_TO_ASK
    """Whom to ask for more."""
    is_person: bool = True
    """False: the server's own token, which says nothing of who holds it."""

    @property
    def sees_everything(self) -> bool:
        """Return whether no unit is kept from them."""
        return self.visibility.everything

    @property
    def may_change(self) -> bool:
        """Return whether they may change anything."""
        return Role.OPERATOR in self.roles

    @property
    def shown_roles(self) -> str:
        """Return the roles in words, the widest last."""
        return ", ".join(str(role) for role in Role if role in self.roles) or "no role"

    def is_own(self, cluster: str, user: str | None) -> bool:
        """Return whether what belongs to a user of a cluster is their own."""
        own = self.visibility.users or frozenset({AccountName(self.name)})
        return user is not None and (AccountName(user) in own or AccountName(user, cluster) in own)

    def reason_to_see(self, cluster: str, user: str | None, project: str | None) -> str:
        """Return why they may see a unit of `user` and `project`, in words."""
        if self.is_own(cluster, user):
            return "it is yours"
        if self.sees_everything:
            return f"you are {self.shown_roles}"
        return f"you see project {project}"

    def demand(self, what: str, *roles: Role) -> None:
        """Return if they have one of `roles`. Raises NotPermitted that says which."""
        if self.roles.isdisjoint(roles):
            raise NotPermitted(f"{what}: needs the role {' or '.join(roles)}, and {self.name} is {self.shown_roles}")


def token_holder(contact: str = NOBODY_TO_ASK) -> Principal:
    """Return who holds the server's own token: its operator, whoever that is."""
    return Principal("server token", frozenset({Role.OPERATOR}), "the server's own token", EVERYTHING, contact, False)


def anyone() -> Principal:
    """Return who asks a server on loopback that wants no token."""
    return Principal("anyone here", frozenset({Role.OPERATOR}), "no token is asked for", EVERYTHING, is_person=False)


def principal_of(scope: Mapping[str, Any]) -> Principal:
    """Return who the door found. Raises NotPermitted where nobody passed a door."""
    found = scope.get(PRINCIPAL_KEY)
    if not isinstance(found, Principal):
        raise NotPermitted("nobody was identified for this request")
    return found


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not let in, as an HTTP answer."""

    status: int
    title: str
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())
