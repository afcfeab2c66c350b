"""SLURM jobs by the prolog's notes, and by what slurmstepd and the tasks show: raw id, owner, account, name, CPUs."""

import re

from kwhere.discovery.facts import Facts, Witness
from kwhere.discovery.match import Match
from kwhere.discovery.slurm import is_sluid
from kwhere.discovery.slurm_notes import JobNote, find_note, find_sluid

_STEP_DAEMON = re.compile(r"slurmstepd: \[(?P<job>[0-9]{1,20})[.\]]")
_OF_COMPONENT = ("SLURM_JOB_ID", "SLURM_JOB_ACCOUNT", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION")
_MOST_COMPONENTS = 32
_NAMES = frozenset(
    {
        *(*_OF_COMPONENT, "SLURM_JOB_USER", "SLURM_CPUS_ON_NODE"),
        *(f"{name}_HET_GROUP_{n}" for name in _OF_COMPONENT for n in range(_MOST_COMPONENTS)),
    }
)


def find(match: Match, witness: Witness) -> Facts:
    """Return the facts of a job. Its processes' environment may be forged, so the owner is the kernel's.

    What the prolog noted, which is SLURM's own word, goes before what the environment says.
    """
    note = _note(match, witness)
    sluid = match.unit if is_sluid(match.unit) else None
    job = match.unit if sluid is None else (note.job if note is not None else _raw_id(witness))
    environment = next((told for each in witness.environments(_NAMES) if (told := _of_job(each, job))), {})
    job = job or environment.get("SLURM_JOB_ID")
    noted = note or JobNote("", "")
    uid = next((known for known in (match.uid, noted.uid) if known is not None), None)
    if uid is None:
        uid = _owner(environment, witness)
    labels = {"slurm_partition": noted.partition or environment.get("SLURM_JOB_PARTITION"), "slurm_sluid": sluid}
    cpus = environment.get("SLURM_CPUS_ON_NODE", "")
    return Facts(
        native_id=job if job and job.isascii() and job.isdigit() else None,
        name=noted.name or environment.get("SLURM_JOB_NAME"),
        user=_user(uid, noted.user, environment, witness),
        uid=uid,
        project=noted.account or environment.get("SLURM_JOB_ACCOUNT"),
        labels=tuple((name, value) for name, value in labels.items() if value),
        cpus=int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 8 else None,
        started_seconds=noted.started_seconds,
    )


def _of_job(environment: dict[str, str], job: str | None) -> dict[str, str]:
    """Return what an environment says of a job; nothing where it is another's.

    Tasks of a heterogeneous job have the id of its first component, and each component's own by its number.
    """
    if job in (None, environment.get("SLURM_JOB_ID")):
        return environment
    for n in range(_MOST_COMPONENTS):
        if environment.get(f"SLURM_JOB_ID_HET_GROUP_{n}") == job:
            own = {name: environment.get(f"{name}_HET_GROUP_{n}") for name in _OF_COMPONENT}
            shared = {name: environment.get(name) for name in ("SLURM_JOB_USER", "SLURM_CPUS_ON_NODE")}
            return {name: value for name, value in (own | shared).items() if value is not None}
    return {}


def _note(match: Match, witness: Witness) -> JobNote | None:
    """Return the note of the run that lives; one of a job that is over is of a run before it."""
    directory = witness.settings.slurm_job_dir
    if is_sluid(match.unit):
        note = find_sluid(directory, match.unit)
    else:
        note = find_note(directory, match.unit, match.node_name)
    return note if note is not None and note.ended_seconds is None else None


def _owner(environment: dict[str, str], witness: Witness) -> int | None:
    """Return the owner of the job's tasks. While only slurmstepd runs, which is root's, it is not known yet."""
    uid = witness.owner()
    return None if uid == 0 and environment.get("SLURM_JOB_USER") != "root" else uid


def _user(uid: int | None, noted: str | None, environment: dict[str, str], witness: Witness) -> str | None:
    """Return the kernel's name of the owner, else SLURM's: a node may not know all users."""
    if uid is None:
        return noted or environment.get("SLURM_JOB_USER")
    name = witness.users(uid)
    return noted if noted and name == str(uid) else name


def _raw_id(witness: Witness) -> str | None:
    """Return the job id in slurmstepd's title `slurmstepd: [42.batch]`, which everybody may read."""
    for command in witness.commands():
        found = _STEP_DAEMON.match(" ".join(command))
        if found is not None:
            return str(int(found["job"]))
    return None
