"""The command line as a whole: help, exit codes, completion."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kwhere._version import __version__
from kwhere.cli import main as module
from kwhere.cli.main import COMMANDS, root, run_root
from kwhere.core.errors import ConfigError, NotFound


def test_help_lists_every_command_without_importing_one() -> None:
    code = (
        "import sys\nfrom kwhere.cli.main import run_root\nstatus = run_root(['--help'])\n"
        "extra = {m for m in sys.modules if m.startswith('kwhere.') and 'core' not in m}\n"
        "extra -= {'kwhere._version', 'kwhere.cli', *('kwhere.cli.' + m for m in ('main', 'exits', 'streams'))}\n"
        "assert not extra, extra\n"
        "assert 'pydantic' not in sys.modules and 'yaml' not in sys.modules\nsys.exit(status)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_version() -> None:
    result = CliRunner().invoke(root, ["--version"])

    assert result.output == f"kwhere {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_loads_and_has_help(name: str) -> None:
    result = CliRunner().invoke(root, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) > 3


@pytest.mark.parametrize("arguments", [["no-such"], ["--no-such"], ["completion", "tcsh"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(arguments) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("agent.x: unknown key"), 2), (NotFound("unit 7: not found"), 1), (KeyboardInterrupt(), 130)],
)
def test_an_error_becomes_an_exit_code_and_one_line(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(module.root, "main", fail)

    assert run_root([]) == code
    assert capsys.readouterr().err == (f"kwhere: {error}\n" if code != 130 else "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    result = CliRunner().invoke(root, ["completion", shell])

    assert result.exit_code == 0
    assert "_KWHERE_COMPLETE" in result.output


def variables_of(command: click.Command, place: str) -> Iterator[tuple[str, object]]:
    """Yield (command and option, its environment variable) of a command and those below it."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{place} {max(option.opts, key=len)}", option.envvar
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from variables_of(inner, f"{place} {name}")


def test_every_option_has_an_environment_variable() -> None:
    found: dict[str, object] = {}
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        found |= variables_of(command, name)

    assert len(found) > 60
    assert [place for place, variable in found.items() if not str(variable).startswith("KWHERE_")] == []
    assert found["up --no-open"] == "KWHERE_UP_NO_OPEN"
    assert found["agent --web.listen-address"] == "KWHERE_WEB_LISTEN_ADDRESS"
    assert found["config show --json"] == "KWHERE_CONFIG_SHOW_JSON"
    assert found["units --account"] == "KWHERE_UNITS_ACCOUNT"


@pytest.mark.parametrize(("value", "printed"), [("true", "{"), ("", "agent:")])
def test_a_switch_is_turned_on_by_its_variable(value: str, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWHERE_CONFIG_SHOW_JSON", value)
    monkeypatch.setenv("KWHERE_CONFIG_FILE", "/dev/null")

    assert CliRunner().invoke(root, ["config", "show"]).stdout.startswith(printed)


@pytest.mark.parametrize("arguments", [["up", "--no-open"], ["server"], ["database", "check"]])
def test_without_the_server_part_the_command_that_brings_it_is_named(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['sqlalchemy'] = None\nimport importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'sqlalchemy' else find(name, *more)\n"
        f"from kwhere.cli.main import run_root\nsys.exit(run_root({[*arguments, '--state', str(tmp_path)]}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)

    assert done.returncode == 1
    assert done.stderr == ("kwhere: the server part is not installed (no sqlalchemy): pip install 'kwhere[server]'\n")


def test_a_state_directory_has_the_same_two_names_everywhere() -> None:
    found: dict[str, set[str]] = {}

    def walk(command: click.Command, place: str) -> None:
        for option in command.params:
            if option.name == "state_dir":
                found[place] = set(option.opts)
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                walk(inner, f"{place} {name}")

    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        walk(command, name)

    assert len(found) > 15
    assert {place for place, names in found.items() if names != {"--state", "--state-dir"}} == {"units"}
