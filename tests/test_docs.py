"""Documentation that can be checked is checked: generated pages, tables, links, commands of the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.reference import PAGES, REFERENCE

from kwhere.cli.main import COMMANDS
from kwhere.collectors.registry import find_collectors

ROOT = Path(__file__).parents[1]
PAGES_OF_TEXT = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pages as a process of its own writes them: a command used by a test remembers how it was called."""
    directory = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, "-m", "scripts.reference", str(directory)], cwd=ROOT, check=True)
    return directory


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_those_of_the_code(name: str, generated: Path) -> None:
    assert (REFERENCE / name).read_text() == (generated / name).read_text(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES_OF_TEXT, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text)

    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_collector_has_its_row() -> None:
    rows = (ROOT / "docs" / "collectors.md").read_text()

    assert not [name for name in find_collectors().plugins if f"| `{name}` |" not in rows]


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_commands_named_in_prose_exist(page: str) -> None:
    used = set(re.findall(r"kwhere ([a-z]+(?:-[a-z]+)*)\b", (ROOT / page).read_text()))
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
