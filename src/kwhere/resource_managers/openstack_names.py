"""Who ids of Keystone are: users, projects, and who may charge which."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kwhere.core.managed import Account, Accounts, Membership
from kwhere.resource_managers.rest_values import inner, objects, text


@dataclass(frozen=True, slots=True)
class Names:
    """Names by id. An id that Keystone does not list (deleted, of a directory elsewhere) is shown as it is."""

    users: Mapping[str, str] = field(default_factory=dict)
    projects: Mapping[str, str] = field(default_factory=dict)

    def user(self, user_id: str | None) -> str | None:
        """Return a user's name, else the id."""
        return None if user_id is None else self.users.get(user_id, user_id)

    def project(self, project_id: str | None) -> str | None:
        """Return a project's name, else the id."""
        return None if project_id is None else self.projects.get(project_id, project_id)


def names_by_id(rows: object, domains: Mapping[str, str]) -> dict[str, str]:
    """Return names by id; a name that is in several domains gets `@domain`: two projects never become one."""
    found = [
        (row_id, name, text(row.get("domain_id")) or "")
        for row in objects(rows)
        if (row_id := text(row.get("id"))) is not None and (name := text(row.get("name"))) is not None
    ]
    times = Counter(name for name, _ in {(name, domain) for _, name, domain in found})
    return {
        row_id: f"{name}@{domains.get(domain, domain)}" if times[name] > 1 else name for row_id, name, domain in found
    }


def accounts_of(projects: object, assignments: object, names: Names) -> Accounts:
    """Return all projects, disabled ones too, and the users with a role in them."""
    accounts = tuple(
        Account(
            names.projects[project_id],
            text(row.get("description")),
            names.projects.get(text(row.get("parent_id")) or ""),
        )
        for row in objects(projects)
        if (project_id := text(row.get("id"))) in names.projects and project_id is not None
    )
    return Accounts(accounts, tuple(sorted(set(_memberships(objects(assignments), names)))))


def _memberships(assignments: Iterable[Mapping[str, object]], names: Names) -> Iterable[Membership]:
    for row in assignments:
        user = names.user(text(inner(row, "user").get("id")))
        project = names.project(text(inner(inner(row, "scope"), "project").get("id")))
        if user is not None and project is not None:
            yield Membership(user, project)
