"""Who asks: so that an empty list can be told from one that is kept from the asker."""

from dataclasses import dataclass

from kwhere.access.principal import Principal
from kwhere.access.roles import Role
from kwhere.api.context import SourcesOf
from kwhere.api.routers import api_router

router = api_router("access")


@dataclass(frozen=True, slots=True)
class AskerView:
    """Who the server takes the asker for."""

    name: str
    roles: list[str]
    why: str
    """How the server knows."""
    everything: bool
    """Whether all units are shown; else those of `users` and `projects`."""
    sees: str
    """The same in words."""
    users: list[str]
    projects: list[str]
    contact: str
    """Whom to ask for more."""


@router.get("/whoami")
def whoami(sources: SourcesOf) -> AskerView:
    """Return who asks, and what they may see."""
    asker = sources.principal
    return AskerView(
        name=asker.name,
        roles=[str(role) for role in Role if role in asker.roles],
        why=asker.why,
        everything=asker.sees_everything,
        sees=_sees(asker),
        users=sorted({account.name for account in asker.visibility.users}),
        projects=sorted({account.name for account in asker.visibility.projects}),
        contact=asker.contact,
    )


def _sees(asker: Principal) -> str:
    if asker.sees_everything:
        return "everything"
    if asker.visibility.members or asker.visibility.projects:
        return "their own units and those of their projects"
    return "their own units"
