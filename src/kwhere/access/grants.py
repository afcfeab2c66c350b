"""From a name and its groups to a principal: roles by settings, groups and Grafana's teams, and what these see."""

from collections.abc import Callable, Collection, Iterable

from kwhere.access.principal import Principal
from kwhere.access.roles import Role
from kwhere.access.settings import AccessSettings, AccountSettings, PersonSettings
from kwhere.database.visibility import EVERYTHING, AccountName, Visibility

TeamRoles = Callable[[str], Collection[Role]]
"""Roles that a name has by a team, at present."""
SEES_ALL = frozenset({Role.OPERATOR, Role.AUDITOR})


def _no_teams(name: str) -> Collection[Role]:
    return ()


class Grants:
    """Who is what here. Names are matched exactly."""

    def __init__(self, settings: AccessSettings, team_roles: TeamRoles = _no_teams) -> None:
        self._settings = settings
        self._people = {person.name: person for person in settings.people}
        self._groups = {group.group: group.roles for group in settings.groups}
        self._team_roles = team_roles

    @property
    def contact(self) -> str:
        """Return whom to ask for more rights."""
        return self._settings.contact

    def roles_of(self, name: str, groups: Iterable[str] = ()) -> frozenset[Role]:
        """Return the roles of a person; everybody is a user."""
        person = self._people.get(name)
        roles = {Role.USER, *(person.roles if person else ()), *self._team_roles(name)}
        for group in groups:
            roles.update(self._groups.get(group, ()))
        return frozenset(roles)

    def principal(self, name: str, why: str, roles: Collection[Role]) -> Principal:
        """Return the principal of a name with these roles."""
        person = self._people.get(name) or PersonSettings.model_construct(name=name)
        return Principal(name, frozenset(roles), why, self._visibility(person, roles), self._settings.contact)

    def _visibility(self, person: PersonSettings, roles: Collection[Role]) -> Visibility:
        if not SEES_ALL.isdisjoint(roles):
            return EVERYTHING
        users = _accounts(person.accounts) or self._named(person.name)
        is_manager = Role.PROJECT_MANAGER in roles
        return Visibility(
            users=users,
            projects=_accounts(person.projects),
            members=users if is_manager else frozenset(),
            site=self._settings.users_see_nodes,
        )

    def _named(self, name: str) -> frozenset[AccountName]:
        clusters = self._settings.clusters
        return frozenset(AccountName(name, cluster) for cluster in clusters) or frozenset({AccountName(name)})


def _accounts(settings: Iterable[AccountSettings]) -> frozenset[AccountName]:
    return frozenset(AccountName(account.name, account.cluster) for account in settings)
