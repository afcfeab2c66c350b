"""Secrets of settings that stand elsewhere: put in where they are used, never told (case_ceems_369)."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kwhere.apps.configuration import load
from kwhere.apps.expansion import expand, hide_in
from kwhere.apps.settings import Settings
from kwhere.cli.main import run_root
from kwhere.core.errors import ConfigError

SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        pytest.param("${TOKEN}", SECRET, id="case_ceems_369"),
        pytest.param("postgresql://kwhere:${TOKEN}@db/kwhere", f"postgresql://kwhere:{SECRET}@db/kwhere", id="within"),
        pytest.param("${TOKEN}${EMPTY}", SECRET, id="two"),
        pytest.param("$$", "$", id="a dollar"),
        pytest.param("$${TOKEN}", "${TOKEN}", id="an escaped reference"),
        pytest.param("cost: 5$", "cost: 5$", id="a dollar at the end"),
        pytest.param("$TOKEN", "$TOKEN", id="without braces it is text"),
        pytest.param("plain", "plain", id="nothing"),
    ],
)
def test_a_variable_is_put_in(written: str, becomes: str) -> None:
    tree, _ = expand({"a": [{"b": written}], "n": 7}, {"TOKEN": SECRET, "EMPTY": ""})

    assert tree == {"a": [{"b": becomes}], "n": 7}


def test_a_file_is_put_in_without_its_last_newline(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\n")

    assert expand({"a": f"${{file:{file}}}"}, {})[0] == {"a": SECRET}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${NOPE}", "x.0.key: the environment has no variable NOPE"),
        ("${}", "x.0.key: expected ${NAME} or ${file:/path}"),
        ("${NO PE}", "found ${NO PE}"),
        ("${TOKEN:-default}", "expected ${NAME}"),
        ("${TOKEN", "x.0.key: expected ${NAME} with its closing brace"),
        ("a ${TOKEN b", "found one that is open"),
        ("${${TOKEN}}", "found one that is open"),
        ("${file:/no/such/file}", "x.0.key: /no/such/file: cannot be read: No such file or directory"),
    ],
)
def test_what_is_not_there_names_the_key(written: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand({"x": [{"key": written}]}, {"TOKEN": SECRET})

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        tree, _ = expand({"a": text}, {"A": "1"})
    except ConfigError:
        return
    assert "$" in text or tree == {"a": text}


def test_settings_are_read_with_it_and_show_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    monkeypatch.setenv("STEP", "2.5")
    file = tmp_path / "kwhere.yaml"
    file.write_text(
        "database: {url: 'postgresql+psycopg://kwhere:${DB_PASSWORD}@db/kwhere'}\n"
        "agent: {interval_seconds: '${STEP}'}\n"
    )

    settings = load(Settings, file)
    assert run_root(["config", "show", "--config.file", str(file)]) == 0
    shown = capsys.readouterr().out

    assert settings.agent.interval_seconds == 2.5
    assert SECRET in str(settings.database.url)
    assert SECRET not in shown
    assert yaml.safe_load(shown)["database"]["url"] == "postgresql+psycopg://kwhere:${DB_PASSWORD}@db/kwhere"
    assert yaml.safe_load(shown)["agent"]["interval_seconds"] == "${STEP}"


@pytest.mark.parametrize(
    "text",
    [
        "site: {zone: '${SECRET_ZONE}'}",
        "agent: {interval_seconds: '${SECRET_ZONE}'}",
        "database: {url: ['${SECRET_ZONE}']}",
        "site: {'nope': '${SECRET_ZONE}'}",
        "server: {listen: '${SECRET_ZONE}'}",
    ],
)
def test_a_wrong_value_is_not_told(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET_ZONE", SECRET)
    file = tmp_path / "kwhere.yaml"
    file.write_text(text)

    run_root(["config", "check", str(file)])

    out, err = capsys.readouterr()
    assert SECRET not in out + err


def test_what_a_setting_became_elsewhere_is_hidden_too() -> None:
    _, expanded = expand({"a": "${TOKEN}"}, {"TOKEN": SECRET})

    assert hide_in({"b": [f"x{SECRET}y"], "c": 1}, expanded) == {"b": ["x${TOKEN}y"], "c": 1}
