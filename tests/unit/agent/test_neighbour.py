"""Niceness and the like, in a process of its own; and the state directory handed over."""

import grp
import os
import pwd
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kwhere.agent import neighbour
from kwhere.agent.settings import AgentSettings
from kwhere.core.errors import ConfigError, Unavailable


def in_child(check: str) -> int:
    """Return the exit code of a child that runs `check`."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = CHECKS[check]()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def nicer() -> int:
    cpu = min(os.sched_getaffinity(0))
    failed = neighbour.apply(AgentSettings(nice=7, cpu_affinity=(cpu,), oom_score_adjust=500))
    score = Path("/proc/self/oom_score_adj").read_text().strip()
    is_set = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), score) == (7, {cpu}, "500")
    return 0 if not failed and is_set else 1


def impossible() -> int:
    failed = neighbour.apply(AgentSettings(cpu_affinity=(4_000,)))
    return 0 if len(failed) == 1 and failed[0].startswith("agent.cpu_affinity: ") else 1


def nobody() -> int:
    with TemporaryDirectory(ignore_cleanup_errors=True) as state:
        Path(state).chmod(0o755)
        try:
            neighbour.become("nobody", Path(state))
        except ConfigError as error:  # where this Python lies in root's home
            return 0 if "may not read" in str(error) else 1
        return 0 if os.geteuid() == pwd.getpwnam("nobody").pw_uid and os.access(state, os.W_OK) else 1


def member_of_a_group() -> tuple[str, int]:
    """Return a user of this machine and a group of theirs, not the first one if there is such a user."""
    for group in grp.getgrall():
        for user in group.gr_mem:
            with suppress(KeyError):
                if pwd.getpwnam(user).pw_gid != group.gr_gid:
                    return user, group.gr_gid
    return "nobody", pwd.getpwnam("nobody").pw_gid


def in_groups() -> int:
    """What a group of the new user may read is read, what is root's is not."""
    user, gid = member_of_a_group()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chown(folder, pwd.getpwnam(user).pw_uid, 0)  # who takes it away again
        state, ours, theirs = (Path(folder) / name for name in ("state", "group", "root"))
        state.mkdir()
        for path, group in ((ours, gid), (theirs, 0)):
            path.touch()
            os.chown(path, 0, group)
            path.chmod(0o640)
        with suppress(ConfigError):  # where this Python lies in root's home
            neighbour.become(user, state)
        groups = set(os.getgrouplist(user, pwd.getpwnam(user).pw_gid))
        is_right = (os.access(ours, os.R_OK), os.access(theirs, os.R_OK)) == (True, False)
        return 0 if is_right and set(os.getgroups()) == groups else 1


CHECKS = {"nicer": nicer, "impossible": impossible, "nobody": nobody, "case_ceems_451_groups": in_groups}


@pytest.mark.service("root")
@pytest.mark.parametrize("check", CHECKS)
def test_a_process_can_be_made_a_good_neighbour(check: str) -> None:
    assert in_child(check) == 0


def test_nothing_is_touched_unless_asked_for() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)

    assert neighbour.apply(AgentSettings()) == []
    assert (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)) == before


@pytest.mark.service("root")
def test_the_state_directory_is_handed_over_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not ours")
    state = tmp_path / "state"
    (state / "inner").mkdir(parents=True)
    (state / "inner" / "file").write_text("ours")
    (state / "link").symlink_to(outside)

    neighbour.hand_over(state, 12345, 23456)

    for path in (state, state / "inner", state / "inner" / "file", state / "link"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (12345, 23456)
    assert outside.stat().st_uid == 0


@pytest.mark.service("root")
def test_an_unknown_user_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.user: .*'no-such-user'"):
        neighbour.become("no-such-user", tmp_path)


def test_only_root_can_become_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Unavailable, match=r"agent\.user"):
        neighbour.become("root", tmp_path)
