"""Keys and what they choose."""

import pytest

from kwhere.local.top_choice import Choice, SortKey, chosen_rows, press, split_keys
from kwhere.local.top_history import TopRow

ROWS = (
    TopRow("slurm", "eve", "cfd", 100.0, 5.0, 900.0, 8.0, 10, 1),
    TopRow("docker", "bob", "Web", 20.0, 50.0, 60.0, 0.5, 300, 4),
    TopRow("process", None, "bash", None, None, None, None, None, None),
)


def typed(keys: str, choice: Choice | None = None) -> Choice:
    """Return the choice after these keys."""
    choice = choice or Choice()
    for key in split_keys(keys):
        choice = press(choice, key)
    return choice


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("p", ["cfd", "Web", "bash"]),
        ("e", ["Web", "cfd", "bash"]),
        ("et", ["cfd", "Web", "bash"]),
        ("c", ["cfd", "Web", "bash"]),
        ("m", ["Web", "cfd", "bash"]),
        ("n", ["bash", "cfd", "Web"]),
        ("nr", ["Web", "cfd", "bash"]),
        ("pr", ["Web", "cfd", "bash"]),
        ("prr", ["cfd", "Web", "bash"]),
    ],
)
def test_sorting(keys: str, order: list[str]) -> None:
    assert [row.label for row in chosen_rows(ROWS, typed(keys))] == order


@pytest.mark.parametrize(("word", "labels"), [("WEB", ["Web"]), ("eve", ["cfd"]), ("doc", ["Web"]), ("zzz", [])])
def test_a_filter_looks_at_manager_user_and_name_while_it_is_typed(word: str, labels: list[str]) -> None:
    choice = typed(f"/{word}")

    assert choice.typing == word
    assert [row.label for row in chosen_rows(ROWS, choice)] == labels
    assert press(choice, "\r").filter == word


def test_keys_are_text_while_a_filter_is_typed() -> None:
    choice = typed("/qp\x7fr")

    assert choice.typing == "qr"
    assert not choice.over
    assert press(choice, "\x03").over


def test_escape_drops_what_was_typed_then_the_filter() -> None:
    kept = typed("/cfd\r/x\x1b")

    assert (kept.filter, kept.typing) == ("cfd", None)
    assert press(kept, "\x1b").filter == ""


def test_a_filter_can_be_gone_on_with() -> None:
    assert typed("/cf\r/d\r").filter == "cfd"


@pytest.mark.parametrize("key", ["q", "Q", "\x03", "\x04"])
def test_quit(key: str) -> None:
    assert typed(key).over


def test_scrolling_never_leaves_the_top() -> None:
    assert typed("\x1b[B\x1b[Bj").offset == 3
    assert typed("\x1b[6~\x1b[A").offset == 9
    assert typed("\x1b[A\x1b[5~k").offset == 0
    assert typed(" p").offset == 0


def test_other_keys_change_nothing() -> None:
    assert typed("xyz\x1b[15~\x1bOP") == Choice()


def test_sequences_are_one_key_each() -> None:
    assert split_keys("a\x1b[A\x1b[6~é\x1bOBq\x1b") == ["a", "\x1b[A", "\x1b[6~", "é", "\x1bOB", "q", "\x1b"]
    assert SortKey("p") is SortKey.POWER
