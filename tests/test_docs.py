"""Documentation that can be checked is checked: generated pages, tables, links, commands of the README."""

import re
from pathlib import Path

import pytest
from scripts.reference import GENERATED, PAGES, REFERENCE

from kwhere.cli.main import COMMANDS
from kwhere.collectors.registry import find_plugins

ROOT = Path(__file__).parents[1]
PAGES_OF_TEXT = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_those_of_the_code(name: str) -> None:
    expected = GENERATED + PAGES[name]().rstrip() + "\n"

    assert (REFERENCE / name).read_text() == expected, "run `make docs`"


@pytest.mark.parametrize("page", PAGES_OF_TEXT, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text)

    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_collector_has_its_row() -> None:
    rows = (ROOT / "docs" / "collectors.md").read_text()

    assert not [name for name in find_plugins().plugins if f"| `{name}` |" not in rows]


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_commands_named_in_prose_exist(page: str) -> None:
    used = set(re.findall(r"kwhere ([a-z]+)\b", (ROOT / page).read_text()))
    words = {
        "is",
        "and",
        "where",
        "reads",
        "cd",
        "has",
        "finds",
        "does",
        "at",
        "can",
        "says",
        "shows",
        "needs",
        "accounts",
    }

    assert used - words <= set(COMMANDS)


def test_no_page_names_a_machine_path_or_a_registry() -> None:
    offenders = [str(p) for p in PAGES_OF_TEXT if re.search(r"/work/|/root/|pypi\.org/simple", p.read_text())]

    assert not offenders
