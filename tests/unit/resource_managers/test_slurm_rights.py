"""A user to whom SLURM does not show others' jobs is told so, and its short answers are not believed."""

import os
import pwd

import pytest

from kwhere.core.errors import Unavailable
from kwhere.resource_managers.slurm_rights import check_sight

CONFIGURATION = """\
Configuration data as of 2026-11-30T10:16:12
PrivateData            = {ctld}
SlurmUser              = slurm(108)
SlurmDBD configuration:
PrivateData            = {dbd}
SlurmUser              = slurm(108)
"""
"""As `sacctmgr show configuration` of 22.05.8 has it, its other lines left out."""


class Sacctmgr:
    """Says what it is told to."""

    def __init__(self, ctld: str = "none", dbd: str = "none", level: str = "None") -> None:
        self.configuration, self.level = CONFIGURATION.format(ctld=ctld, dbd=dbd), level
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *words: str) -> str:
        self.asked.append(words)
        return self.configuration if words[-1] == "configuration" else f"{self.level}\n"


def be(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the process be this user's."""
    entry = pwd.struct_passwd((name, "x", 4242, 4242, "", "/", "/bin/false"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)


@pytest.mark.parametrize(
    ("said", "user"),
    [
        (Sacctmgr(), "kwhere"),
        (Sacctmgr("accounts,users,usage", "events"), "kwhere"),
        (Sacctmgr("jobs", level="Operator"), "kwhere"),
        (Sacctmgr(dbd="accounts,events,jobs", level="Administrator"), "kwhere"),
        (Sacctmgr("jobs"), "slurm"),
        (Sacctmgr("jobs"), "root"),
    ],
)
def test_who_sees_all_jobs_may_ask(monkeypatch: pytest.MonkeyPatch, said: Sacctmgr, user: str) -> None:
    be(monkeypatch, user)

    check_sight(said)


@pytest.mark.parametrize(
    "said", [Sacctmgr("accounts,jobs,users"), Sacctmgr(dbd="jobs"), Sacctmgr("jobs", level=""), Sacctmgr("all, jobs")]
)
def test_who_does_not_is_told(monkeypatch: pytest.MonkeyPatch, said: Sacctmgr) -> None:
    be(monkeypatch, "kwhere")

    with pytest.raises(Unavailable, match=r"may not ask for others' jobs: .* kwhere is no operator") as caught:
        check_sight(said)

    assert caught.value.reason == "permission"
    assert said.asked[-1] == ("sacctmgr", "-n", "-P", "show", "user", "kwhere", "format=AdminLevel")


def test_what_sacctmgr_does_not_say_is_not_held_against_anybody() -> None:
    def away(*_: str) -> str:
        raise Unavailable("absent", "sacctmgr: absent")

    check_sight(away)


def test_a_user_without_a_name_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)

    check_sight(Sacctmgr("jobs"))
