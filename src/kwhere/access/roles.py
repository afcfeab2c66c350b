"""What somebody can be here; apart from what they see, so that settings are read without the server part."""

from enum import StrEnum

NOBODY_TO_ASK = "the operators of this server"
"""Whom pages name that refuse something, where the site names nobody."""


class Role(StrEnum):
    """What somebody is here; a person may be several."""

    USER = "user"
    """Sees their own units."""
    PROJECT_MANAGER = "project manager"
    """Sees the units of the projects they are a member of as well."""
    AUDITOR = "auditor"
    """Sees everything, the audit log too, and changes nothing."""
    OPERATOR = "operator"
    """Sees everything and may change what can be changed."""
