"""The audit log: who changed what, and who looked at others' units."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query

from kwhere.access.roles import Role
from kwhere.api.context import After, From, Limit, SourcesOf, To, optional_span
from kwhere.api.models import Page
from kwhere.api.routers import api_router
from kwhere.database.audit import AuditQuery, AuditRecord

router = api_router("access")


@dataclass(frozen=True, slots=True)
class AuditView:
    """A line of the audit log."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, object]


@router.get("/audit")
def audit_log(
    sources: SourcesOf,
    actor: Annotated[str | None, Query(description="Only what this principal did", max_length=255)] = None,
    action: Annotated[str | None, Query(description="Only this, e.g. `read unit`", max_length=64)] = None,
    start: From = None,
    to: To = None,
    limit: Limit = 100,
    after: After = None,
) -> Page[AuditView]:
    """Return the audit log, newest first, to auditors and operators."""
    sources.principal.demand("audit log", Role.AUDITOR, Role.OPERATOR)
    page = sources.account.audit(AuditQuery(actor, action, optional_span(sources, start, to), limit, after))
    return Page(items=[_view(record) for record in page.items], next=page.next)


def _view(record: AuditRecord) -> AuditView:
    return AuditView(record.at, record.actor, record.action, record.subject, dict(record.detail))
