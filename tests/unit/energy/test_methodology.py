"""docs/methodology.md: its worked second comes out of the functions it names, and it names them all."""

import ast
import re
from pathlib import Path

import pytest

from kwhere.energy.emissions import grams
from kwhere.energy.platform import close_span
from kwhere.energy.split import Held, Use, idle_energy, split_domain

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "methodology.md").read_text()
MODULES = sorted(path for path in (ROOT / "src/kwhere/energy").glob("*.py") if path.name != "__init__.py")
SECOND = 1_000_000_000
CPU_TIME = Use([1_500_000_000, 750_000_000], 300_000_000)
CPUS_HELD = Held([2000 * SECOND, 1000 * SECOND], 4000 * SECOND, [SECOND, SECOND])
MEMORY_HELD = Held([32 * SECOND, 8 * SECOND], 64 * SECOND, [SECOND, SECOND])


def rows() -> dict[str, list[int]]:
    """Return the table of section 10: its numbers by row, left to right."""
    section = TEXT.partition("## 10.")[2].partition("## 11.")[0]
    found = re.findall(r"^\| \**([a-z ]+?)\** \|(.*)$", section, re.MULTILINE)
    return {name: [int(number.replace(" ", "")) for number in re.findall(r"\d[\d ]*", line)] for name, line in found}


def test_the_worked_second_balances() -> None:
    cpu_idle, dram_idle = idle_energy(60_000_007, 20_000_000, SECOND), idle_energy(8_000_003, 4_000_000, SECOND)
    other_uj = close_span(100_000_001, 68_000_010, [], 0).other_uj
    other_idle = idle_energy(other_uj, 25_000_000, SECOND)

    cpu = split_domain(60_000_007 - cpu_idle, cpu_idle, CPU_TIME, CPUS_HELD)
    dram = split_domain(8_000_003 - dram_idle, dram_idle, CPU_TIME, MEMORY_HELD)
    dynamic = [a + b for a, b in zip(cpu.dynamic, dram.dynamic, strict=True)]
    beside = Use(dynamic, cpu.system_dynamic + dram.system_dynamic)
    other = split_domain(other_uj - other_idle, other_idle, beside, CPUS_HELD)

    table = rows()
    for name, split in (("cpu", cpu), ("dram", dram), ("other", other)):
        assert table[f"{name} dynamic"][:3] == [*split.dynamic, split.system_dynamic]
        assert table[f"{name} idle"][:3] == [*split.idle, split.unallocated]
    assert table["all"][:4] == [54_500_001, 26_750_000, 6_000_000, 12_750_000]
    assert round(grams(54_500_001, 1.3, 50.0), 6) == 0.000984


@pytest.mark.parametrize("row", [name for name in rows() if name != "all"])
def test_every_row_of_the_worked_second_sums_up(row: str) -> None:
    *parts, whole = rows()[row]

    assert sum(parts) == whole


def test_the_columns_of_the_worked_second_sum_up_to_the_node() -> None:
    table = rows()
    *parts, whole = table.pop("all")

    assert sum(parts) == whole == 100_000_001 == sum(row[-1] for row in table.values())


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.stem))
def test_every_function_of_the_science_is_named(module: Path) -> None:
    tree = ast.parse(module.read_text())
    public = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]

    assert f"| `{module.stem}` |" in TEXT
    assert not [name for name in public if f"`{name}`" not in TEXT and f".{name}`" not in TEXT]
