"""OAR jobs by the file of variables that OAR keeps on each node of a job."""

import re
import shlex

from kwhere.discovery.facts import Facts, Witness, read_small
from kwhere.discovery.match import Match

_EXPORT = re.compile(r"export (?P<name>[A-Z_]+)=(?P<value>.*)")


def find(match: Match, witness: Witness) -> Facts:
    """Return the facts of a job; the owner's name is OAR's, else the kernel's."""
    user = match.user
    if user is None and match.uid is not None:
        user = witness.users(match.uid)
    variables = _variables(user, match.unit, witness) if user else {}
    labels = {
        "oar_array_id": variables.get("OAR_ARRAYID"),
        "oar_walltime_seconds": variables.get("OAR_JOB_WALLTIME_SECONDS"),
    }
    return Facts(
        name=variables.get("OAR_JOB_NAME") or None,
        user=variables.get("OAR_USER") or user,
        uid=match.uid if match.uid is not None else witness.owner() or None,  # root's are OAR's own
        project=variables.get("OAR_PROJECT_NAME") or None,
        labels=tuple((name, value) for name, value in labels.items() if value),
    )


def parse_variables(text: str) -> dict[str, str]:
    """Return the variables of lines `export NAME='value'`; lines of another form are left out."""
    found = {}
    for line in text.split("\n"):  # values that users give hold any other end of a line
        exported = _EXPORT.fullmatch(line.strip())
        if exported is None:
            continue
        try:
            words = shlex.split(exported["value"])
        except ValueError:  # an open quote: the value goes on over lines
            continue
        found[exported["name"]] = words[0] if words else ""
    return found


def _variables(user: str, job: str, witness: Witness) -> dict[str, str]:
    if "/" in user:
        return {}
    for directory in witness.settings.oar_env_dirs:
        text = read_small(directory / f"{user}_{job}.env")
        if text is not None:
            return parse_variables(text)
    return {}
