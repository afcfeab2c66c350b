"""Settings: precedence, unknown keys, later releases, unreadable files."""

import os
import pwd
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict

from kwhere.apps.configuration import default_file, default_state_dir, load, read_all, read_file
from kwhere.apps.settings import Settings
from kwhere.core.errors import ConfigError


class Part(BaseModel):
    """A section."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    interval_seconds: float = 1.0
    name: str = "n"


class Whole(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    agent: Part = Part()


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults_work_without_a_file() -> None:
    assert load(Whole) == Whole()


def test_later_sources_win(tmp_path: Path) -> None:
    file = write(tmp_path / "kwhere.yaml", "agent: {interval_seconds: 2, name: file}")
    write(tmp_path / "conf.d" / "10.yaml", "agent: {interval_seconds: 3}")
    write(tmp_path / "conf.d" / "20.yaml", "agent: {interval_seconds: 4}")

    settings = load(Whole, file, {"agent.name": "flag"})

    assert settings == Whole(agent=Part(interval_seconds=4, name="flag"))


def test_entries_of_several_files_are_joined_and_single_values_are_not(tmp_path: Path) -> None:
    """Each manager's tutorial writes a file of its own."""
    file = write(tmp_path / "kwhere.yaml", "resource_managers: []\nserver: {targets: [{name: a}], words: [x, y]}")
    write(tmp_path / "conf.d" / "oar.yaml", "resource_managers: [{manager: oar}]")
    write(tmp_path / "conf.d" / "pve.yaml", "resource_managers: [{manager: proxmox}, {manager: proxmox-lxc}]")
    write(tmp_path / "conf.d" / "server.yaml", "server: {targets: [{name: b}], words: [z]}")

    tree, _ = read_all(file)

    assert [entry["manager"] for entry in tree["resource_managers"]] == ["oar", "proxmox", "proxmox-lxc"]
    assert tree["server"] == {"targets": [{"name": "a"}, {"name": "b"}], "words": ["z"]}


@pytest.mark.parametrize("word", ["NO", "no", "off", "On", "yes", "Y", "n"])
def test_only_true_and_false_are_booleans(tmp_path: Path, word: str) -> None:
    """Else Norway's zone and the key `meters.off` would have to be quoted."""
    tree = read_file(write(tmp_path / "kwhere.yaml", f"site: {{zone: {word}, {word}: [true, False, 'true']}}"))

    assert tree == {"site": {"zone": word, word: [True, False, "true"]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent: {intervall_seconds: 2}", "agent.intervall_seconds: unknown key (did you mean interval_seconds?)"),
        ("agent: {zzz: 2}", "agent.zzz: unknown key"),
        ("agnet: {}", "agnet: unknown key (did you mean agent?)"),
        ("agent: {interval_seconds: soon}", "agent.interval_seconds: input should be a valid number"),
        ("agent: 3", "agent: input should be a valid dictionary"),
        ("- a", "expected sections by name, found list"),
        ("a: [", "expected YAML"),
        ("1: 2", "expected sections by name"),
        ("since: 3", "since: expected a mapping"),
    ],
)
def test_a_wrong_file_stops_the_start_and_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path / "kwhere.yaml", text)

    with pytest.raises(ConfigError) as caught:
        load(Whole, file)

    assert message in str(caught.value)


def refuse(value: str) -> str:
    raise ValueError("not this one")


class Addressed(BaseModel):
    """A setting that refuses every address."""

    url: Annotated[str, AfterValidator(refuse)] = ""


@pytest.mark.parametrize(
    ("url", "shown"),
    [("https://admin:pa@ss/w@bmc/x", "//…@bmc/x"), ("postgresql://u:p@/db", "//…@/db"), ("//tok@h", "//…@h")],
)
def test_a_refused_address_shows_no_password(tmp_path: Path, url: str, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Addressed, write(tmp_path / "kwhere.yaml", f"url: '{url}'"))

    assert str(caught.value).startswith("url: not this one")
    assert f"{shown}'" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read: No such file"):
        load(Whole, tmp_path / "gone.yaml")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "kwhere.yaml", "#" * (1 << 21))

    with pytest.raises(ConfigError, match="at most"):
        load(Whole, file)


@pytest.mark.parametrize(("release", "kept"), [("99.0", False), ("0.0.1", True)])
def test_a_key_of_a_later_release_is_skipped(tmp_path: Path, release: str, kept: bool) -> None:
    file = write(
        tmp_path / "kwhere.yaml", f"agent: {{warp: 9}}\nsince: {{agent.warp: '{release}', agent.no.such: '99'}}"
    )

    if kept:
        with pytest.raises(ConfigError, match=r"agent\.warp: unknown key"):
            load(Whole, file)
    else:
        assert load(Whole, file) == Whole()


def test_an_override_below_a_plain_value_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "kwhere.yaml", "agent: 3")

    with pytest.raises(ConfigError, match="expected agent to be a section"):
        load(Whole, file, {"agent.name": "x"})


def test_the_users_file_goes_before_the_systems(tmp_path: Path) -> None:
    file = write(tmp_path / "kwhere" / "kwhere.yaml", "")

    assert default_file({"XDG_CONFIG_HOME": str(tmp_path)}) == file
    assert default_file({"HOME": str(tmp_path / "nobody")}) in (None, Path("/etc/kwhere/kwhere.yaml"))


def test_a_directory_of_drop_ins_serves_alone(tmp_path: Path) -> None:
    write(tmp_path / "kwhere" / "conf.d" / "10.yaml", "agent: {interval_seconds: 3}")
    write(tmp_path / "kwhere" / "conf.d" / "20.yaml", "agent: {name: later}")

    found = default_file({"XDG_CONFIG_HOME": str(tmp_path)})
    settings = load(Whole, found)

    assert found == tmp_path / "kwhere" / "conf.d"
    assert settings == Whole(agent=Part(interval_seconds=3, name="later"))


def test_state_lives_where_the_service_manager_says_else_under_xdg() -> None:
    assert default_state_dir({"STATE_DIRECTORY": "/var/lib/kwhere:/x"}) == Path("/var/lib/kwhere")
    assert default_state_dir({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/kwhere")
    assert default_state_dir({"HOME": "/h"}) == Path("/h/.local/state/kwhere")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert default_state_dir({}) == own / ".local/state/kwhere"  # as under cron or a bare `env -i`


@given(st.binary(max_size=200))
def test_any_bytes_are_a_mapping_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "kwhere.yaml"
    file.write_bytes(data)

    try:
        tree = read_file(file)
    except ConfigError:
        return

    assert isinstance(tree, dict)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("site: {time_zone: Europe/Pariss}\n", "site.time_zone: unknown time zone 'Europe/Pariss'"),
        (
            "meters: {http_json: {readings: [{url: 'http://x', path: 'a[', unit: W}]}}\n",
            "meters.http_json.readings.0.path: expected keys with dots, [n] or [key=value], found '['",
        ),
        ("site: {pue_ratio: 0.9}\n", "site.pue_ratio: input should be greater than or equal to 1, found 0.9"),
    ],
    ids=["time zone", "path", "number"],
)
def test_what_was_found_is_told_once_and_without_the_librarys_words(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Settings, write(tmp_path / "c.yaml", text))

    assert str(caught.value) == said
