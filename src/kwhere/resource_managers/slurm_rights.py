"""Whether SLURM shows others' jobs to this user: where it hides them, its answers are short and say nothing of it."""

import os
import pwd
import re
from collections.abc import Callable

from kwhere.core.errors import SourceError, Unavailable

_PRIVATE = re.compile(r"^PrivateData\s*=\s*(.*)$", re.MULTILINE)
_OWNER = re.compile(r"^SlurmUser\s*=\s*([^\s(]+)", re.MULTILINE)
_SEES_ALL = frozenset({"operator", "administrator"})


def check_sight(run: Callable[..., str]) -> None:
    """Raise Unavailable (permission) where jobs are private and this user is no operator; `run` runs sacctmgr.

    Where SLURM does not say, nothing is known against this user.
    """
    user = _own_name()
    try:
        told = run("sacctmgr", "show", "configuration")
        if user is None or not _hides_jobs(told) or user in (*_OWNER.findall(told), "root"):
            return
        level = run("sacctmgr", "-n", "-P", "show", "user", user, "format=AdminLevel").strip()
    except (SourceError, Unavailable):
        return
    if level.lower() not in _SEES_ALL:
        raise Unavailable(
            "permission",
            f"sacct: this user may not ask for others' jobs: PrivateData hides them, and {user} is no operator",
        )


def _hides_jobs(configuration: str) -> bool:
    """Return whether slurm.conf or slurmdbd.conf does; both stand there."""
    return any("jobs" in found.lower().replace(" ", "").split(",") for found in _PRIVATE.findall(configuration))


def _own_name() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
