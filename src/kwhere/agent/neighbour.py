"""Being a good neighbour on a compute node: niceness, CPUs, out-of-memory score, and another user than root."""

import os
import pwd
from pathlib import Path

from kwhere.agent.settings import AgentSettings
from kwhere.core.errors import ConfigError, Unavailable

OOM_FILE = Path("/proc/self/oom_score_adj")


def apply(settings: AgentSettings) -> list[str]:
    """Set what is asked for; return what could not be set, one sentence each."""
    failed = []
    for key, value, change in (
        ("agent.nice", settings.nice, lambda value: os.setpriority(os.PRIO_PROCESS, 0, value)),
        ("agent.cpu_affinity", settings.cpu_affinity, lambda value: os.sched_setaffinity(0, value)),
        ("agent.oom_score_adjust", settings.oom_score_adjust, lambda value: OOM_FILE.write_text(str(value))),
    ):
        if value is None:
            continue
        try:
            change(value)
        except (OSError, ValueError) as error:
            failed.append(f"{key}: {value} could not be set: {error}")
    return failed


def become(user: str, state_dir: Path) -> None:
    """Turn from root into `user`, who first gets the state directory. Raises ConfigError or Unavailable.

    Readings that were opened before stay open; what is opened later needs the user's own rights.
    """
    if os.geteuid() != 0:
        raise Unavailable("permission", f"agent.user: only root can become {user}, and this process is not root")
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"agent.user: expected a user of this machine, found {user!r}") from None
    hand_over(state_dir, found.pw_uid, found.pw_gid)
    os.initgroups(user, found.pw_gid)
    os.setgid(found.pw_gid)
    os.setuid(found.pw_uid)
    for part in (os.__file__, __file__):  # modules are loaded as they are needed: the user must be able to
        if not os.access(part, os.R_OK):
            raise ConfigError(f"agent.user: {user} may not read {part}: install Python and kwhere outside root's home")


def hand_over(directory: Path, uid: int, gid: int) -> None:
    """Give a directory and everything in it to a user; links are not followed."""
    os.chown(directory, uid, gid, follow_symlinks=False)
    for root, directories, files in os.walk(directory):
        for name in (*directories, *files):
            os.chown(os.path.join(root, name), uid, gid, follow_symlinks=False)
