"""SLURM jobs by what slurmstepd and the tasks show: raw id, owner, account, name, CPUs."""

import re

from kwhere.discovery.facts import Facts, Witness
from kwhere.discovery.match import Match
from kwhere.discovery.slurm import is_sluid

_STEP_DAEMON = re.compile(r"slurmstepd: \[(?P<job>[0-9]{1,20})[.\]]")
_NAMES = (
    "SLURM_JOB_ID",
    "SLURM_JOB_USER",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_NAME",
    "SLURM_JOB_PARTITION",
    "SLURM_CPUS_ON_NODE",
)


def find(match: Match, witness: Witness) -> Facts:
    """Return the facts of a job. Its processes' environment may be forged, so the owner is the kernel's."""
    job = _raw_id(witness) if is_sluid(match.unit) else match.unit
    environment = next((e for e in witness.environments(_NAMES) if job in (None, e.get("SLURM_JOB_ID"))), {})
    job = job or environment.get("SLURM_JOB_ID")
    uid = match.uid if match.uid is not None else _owner(environment, witness)
    labels = {"slurm_partition": environment.get("SLURM_JOB_PARTITION")}
    if is_sluid(match.unit):
        labels["slurm_sluid"] = match.unit
    cpus = environment.get("SLURM_CPUS_ON_NODE", "")
    return Facts(
        native_id=job if job and job.isascii() and job.isdigit() else None,
        name=environment.get("SLURM_JOB_NAME"),
        user=_user(uid, environment, witness),
        uid=uid,
        project=environment.get("SLURM_JOB_ACCOUNT"),
        labels=tuple((name, value) for name, value in labels.items() if value),
        cpus=int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 8 else None,
    )


def _owner(environment: dict[str, str], witness: Witness) -> int | None:
    """Return the owner of the job's tasks. While only slurmstepd runs, which is root's, it is not known yet."""
    uid = witness.owner()
    return None if uid == 0 and environment.get("SLURM_JOB_USER") != "root" else uid


def _user(uid: int | None, environment: dict[str, str], witness: Witness) -> str | None:
    return environment.get("SLURM_JOB_USER") if uid is None else witness.users(uid)


def _raw_id(witness: Witness) -> str | None:
    """Return the job id in slurmstepd's title `slurmstepd: [42.batch]`, which everybody may read."""
    for command in witness.commands():
        found = _STEP_DAEMON.match(" ".join(command))
        if found is not None:
            return str(int(found["job"]))
    return None
