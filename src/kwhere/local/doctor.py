"""What a check is, and how many of them are run without one taking another down."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kwhere.core.errors import KwhereError

SubjectT = TypeVar("SubjectT")


class CheckState(StrEnum):
    """How it stands. A person should act on warnings and failures; what is missing may well stay so."""

    OK = "ok"
    WARNING = "warning"
    """Works, and figures are worse or at risk."""
    MISSING = "missing"
    """Is not here; nothing is wrong."""
    FAILED = "failed"
    """Is here and does not work, or keeps something else from working."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to mend it, exact enough to be pasted into a shell."""

    command: str
    undo: str | None = None
    """The command that takes it back; None where there is nothing to take back."""
    risk: str | None = None
    """What the command opens or may break; None where nothing."""
    title: str = ""
    """How long it lasts or whom it serves, where there are several."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found."""

    name: str
    state: CheckState
    found: str
    """What is there, a phrase."""
    why: str = ""
    """Why it is not better, and what that means; sentences."""
    remedies: tuple[Remedy, ...] = ()
    """The recommended one first."""
    section: str = ""
    headline: str = ""
    """How a page says in one line what is amiss; empty: name and finding."""

    def as_json(self) -> dict[str, Any]:
        """Return the check for `--json`; the first remedy stands at the top, further ones in `alternatives`."""
        first = self.remedies[0] if self.remedies else None
        return {
            "name": self.name,
            "section": self.section,
            "state": self.state.value,
            "found": self.found,
            "why": self.why or None,
            "command": first.command if first else None,
            "undo": first.undo if first else None,
            "risk": first.risk if first else None,
            "alternatives": [
                {"title": more.title, "command": more.command, "undo": more.undo, "risk": more.risk}
                for more in self.remedies[1:]
            ],
        }


Findings = Check | Sequence[Check]


@dataclass(frozen=True, slots=True)
class Examination(Generic[SubjectT]):
    """A row of a table of checks: `look` finds one thing, or one for each of several sources."""

    name: str
    section: str
    look: Callable[[SubjectT], Findings]


def ok(name: str, found: str, why: str = "") -> Check:
    """Return a check that found all well."""
    return Check(name, CheckState.OK, found, why)


def missing(name: str, found: str, why: str = "", *remedies: Remedy) -> Check:
    """Return a check that found nothing, which is no fault."""
    return Check(name, CheckState.MISSING, found, why, remedies)


def warning(name: str, found: str, why: str = "", *remedies: Remedy) -> Check:
    """Return a check that a person should look at."""
    return Check(name, CheckState.WARNING, found, why, remedies)


def failed(name: str, found: str, why: str = "", *remedies: Remedy) -> Check:
    """Return a check that found something broken or closed."""
    return Check(name, CheckState.FAILED, found, why, remedies)


def counted(number: int, thing: str) -> str:
    """Return `1 socket`, `2 sockets`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence has them: `cpu, dram and gpu`."""
    return " and ".join([", ".join(words[:-1]), *words[-1:]]) if len(words) > 1 else "".join(words)


def examine(table: Iterable[Examination[SubjectT]], subject: SubjectT) -> list[Check]:
    """Return what every check of the table found."""
    return [check for row in table for check in _run(row, subject)]


def needs_a_person(checks: Iterable[Check]) -> bool:
    """Return whether there is something that a person should fix."""
    return any(check.state in (CheckState.WARNING, CheckState.FAILED) for check in checks)


def _run(row: Examination[SubjectT], subject: SubjectT) -> Iterator[Check]:
    try:
        findings = row.look(subject)
    except KwhereError as error:
        findings = failed(row.name, "could not be checked", str(error))
    except Exception as error:  # noqa: BLE001 - the runner of checks: a fault of one must not hide the others
        findings = failed(row.name, "could not be checked", f"The check is at fault: {type(error).__name__}: {error}")
    for check in [findings] if isinstance(findings, Check) else findings:
        yield replace(check, section=row.section)
