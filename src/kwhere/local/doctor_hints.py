"""What to do next, for the Overview page: the checks that a person can act on."""

from collections.abc import Iterable

from kwhere.local.doctor import Check, CheckState
from kwhere.reports.sources import Hint


def hints(checks: Iterable[Check]) -> list[Hint]:
    """Return one hint for each check that failed or warns and that a command mends, failures first."""
    mendable = [c for c in checks if c.remedies and c.state in (CheckState.FAILED, CheckState.WARNING)]
    return [_hint(check) for check in sorted(mendable, key=lambda check: check.state is not CheckState.FAILED)]


def _hint(check: Check) -> Hint:
    remedy = check.remedies[0]
    sentences = [
        check.why,
        f"Counts {remedy.title}." if remedy.title else "",
        f"Risk: {remedy.risk}" if remedy.risk else "",
    ]
    return Hint(
        title=check.headline or f"{check.name.replace('_', ' ').capitalize()}: {check.found}",
        text=" ".join(sentence for sentence in sentences if sentence),
        command=remedy.command,
        undo=remedy.undo,
    )
