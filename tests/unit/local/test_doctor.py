"""Checks are run one by one; what one does wrong concerns no other."""

from kwhere.core.errors import Unavailable
from kwhere.local.doctor import Check, CheckState, Examination, Remedy, examine, missing, needs_a_person, ok, warning


def absent(_: str) -> Check:
    raise Unavailable("absent", "x: not there")


def at_fault(_: str) -> Check:
    raise ZeroDivisionError("by zero")


def well(subject: str) -> Check:
    return ok("three", subject)


def two(_: str) -> list[Check]:
    return [ok("first", ""), missing("second", "")]


def test_a_check_that_fails_takes_no_other_down() -> None:
    table = (
        Examination("one", "A", absent),
        Examination("two", "A", at_fault),
        Examination("three", "B", well),
    )

    checks = examine(table, "well")

    assert [(check.name, check.state, check.section) for check in checks] == [
        ("one", CheckState.FAILED, "A"),
        ("two", CheckState.FAILED, "A"),
        ("three", CheckState.OK, "B"),
    ]
    assert checks[0].why == "x: not there"
    assert "ZeroDivisionError: by zero" in checks[1].why
    assert checks[2].found == "well"


def test_one_row_may_find_several_things() -> None:
    table = (Examination("many", "A", two),)

    assert [check.name for check in examine(table, "")] == ["first", "second"]


def test_the_first_remedy_stands_at_the_top_of_the_json() -> None:
    check = warning("x", "half", "Why.", Remedy("a", "b", "c", "now"), Remedy("d", title="for good"))

    assert check.as_json() == {
        "name": "x",
        "section": "",
        "state": "warning",
        "found": "half",
        "why": "Why.",
        "command": "a",
        "undo": "b",
        "risk": "c",
        "alternatives": [{"title": "for good", "command": "d", "undo": None, "risk": None}],
    }


def test_what_is_unknown_is_null_in_the_json() -> None:
    found = ok("x", "all").as_json()

    assert (found["why"], found["command"], found["undo"], found["risk"]) == (None, None, None, None)


def test_what_is_missing_is_no_fault() -> None:
    assert not needs_a_person([ok("a", ""), missing("b", "", "", Remedy("c"))])
    assert needs_a_person([ok("a", ""), warning("b", "")])
