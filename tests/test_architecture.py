"""The house's rules that no linter knows: budgets, names, layers."""

import ast
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

SRC = Path(__file__).parents[1] / "src" / "kwhere"
FILES = sorted(SRC.rglob("*.py"))
BANNED_PACKAGES = {"utils", "common", "helpers", "helper", "base", "misc"}


def functions(tree: ast.AST) -> list[tuple[str, int]]:
    """Return name and length in lines of every function of a module."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_files_stay_within_their_budget() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}

    too_long = {str(path.relative_to(SRC)): n for path, n in lengths.items() if n > 500}

    assert not too_long
    assert median(lengths.values()) <= 150


def test_functions_stay_within_their_budget() -> None:
    found = [(str(path.relative_to(SRC)), *item) for path in FILES for item in functions(ast.parse(path.read_text()))]

    assert not [item for item in found if item[2] > 80]
    assert median(length for _, _, length in found) <= 12


def test_no_package_is_a_dumping_ground() -> None:
    names = {part for path in FILES for part in path.relative_to(SRC).with_suffix("").parts}

    assert not names & BANNED_PACKAGES
    assert "kwhere" not in names


def test_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        cwd=SRC.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_no_module_imports_a_process_or_a_plain_http_door() -> None:
    doors = {"subprocess", "requests", "urllib.request", "http.client"}
    allowed = SRC / "transport"
    offenders = []
    for path in FILES:
        if path.is_relative_to(allowed):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            offenders += [(str(path.relative_to(SRC)), name) for name in names if name in doors]

    assert not offenders


@pytest.mark.parametrize("package", ["agent", "collectors", "sampling", "meters", "discovery", "kernel"])
def test_importing_the_node_part_brings_no_server_library(package: str) -> None:
    code = (
        f"import sys, kwhere.{package}, pkgutil, importlib\n"
        f"for m in pkgutil.walk_packages(kwhere.{package}.__path__, 'kwhere.{package}.'):\n"
        "    importlib.import_module(m.name)\n"
        "heavy = {'fastapi', 'sqlalchemy', 'duckdb', 'jinja2', 'alembic'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
