"""What is shipped beside the code is right: the sample configuration, the service units."""

import configparser
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kwhere.apps.configuration import load
from kwhere.apps.settings import Settings
from kwhere.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
COMPILED = frozenset({".a", ".c", ".cc", ".cpp", ".h", ".ll", ".o", ".pyd", ".pyx", ".rs", ".so", ".s"})
"""Endings of what a compiler reads or writes."""
ELF = b"\x7fELF"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))


def test_the_sample_configuration_is_accepted() -> None:
    settings = load(Settings, PACKAGING / "kwhere.yaml")

    assert [group.cluster for group in settings.server.targets] == ["alpha"]
    assert settings.site.zone == "FR"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_service_starts_a_command_that_exists_with_bounds(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read(unit)
    service = parser["Service"]

    words = service["ExecStart"].split()

    assert words[0] == "/opt/kwhere/bin/kwhere"
    assert words[1] in COMMANDS
    assert "MemoryHigh" in service
    assert service["NoNewPrivileges"] == "yes"
    assert "CapabilityBoundingSet" in service


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel as `make wheel` builds it, without asking a registry for the builder."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_is_pure_python_case_ceems_393(wheel: Path) -> None:
    """No eBPF program is built, so no LLVM is too new for it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        lines = archive.read(about).decode().splitlines()
        compiled = [name for name in names if Path(name).suffix.lower() in COMPILED]
        objects = [name for name in names if archive.read(name)[:4] == ELF]

    assert wheel.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true" in lines
    assert "Tag: py3-none-any" in lines
    assert sum(name.endswith(".py") for name in names) > 500
    assert "kwhere/py.typed" in names
    assert compiled == []
    assert objects == []


def test_nothing_it_needs_is_compiled_where_it_is_installed_case_ceems_393() -> None:
    """What was built on the spot has the tag of this machine; what came as a wheel says `none-any` or `manylinux`."""
    needed = sorted(set(_needed("kwhere", ("server", "postgres", "ldap"))))
    tags = {name: re.findall(r"^Tag: (.+)$", distribution(name).read_text("WHEEL") or "", re.M) for name in needed}

    assert {"bcrypt", "duckdb", "psycopg-binary", "pyyaml"} <= set(needed)
    built_here = {
        name: found
        for name, found in tags.items()
        if not any(tag.endswith("-none-any") or "manylinux" in tag or "musllinux" in tag for tag in found)
    }
    assert built_here == {}


def _needed(name: str, extras: tuple[str, ...]) -> Iterator[str]:
    """Yield every distribution that `name` with `extras` brings along here."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        found = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if found == "kwhere":
            continue
        try:
            distribution(found)
        except PackageNotFoundError:
            continue  # of another Python or machine
        yield found
        yield from _needed(found, tuple(sorted(requirement.extras)))
