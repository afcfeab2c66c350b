"""Flags whose names only the collectors know."""

import click
import pytest

from kwhere.cli.collector_options import collector_overrides, split_collector_flags


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--no-collector.disk"], [("no-collector.disk", None)]),
        (["--collector.disk", "--disk.limit", "8"], [("collector.disk", None), ("disk.limit", "8")]),
        (["--disk.limit=8"], [("disk.limit", "8")]),
        (["--disk.limit", "--no-collector.load"], [("disk.limit", None), ("no-collector.load", None)]),
        ([], []),
    ],
)
def test_words_are_split(words: list[str], given: list[tuple[str, str | None]]) -> None:
    assert split_collector_flags(words) == given


@pytest.mark.parametrize("words", [["disk"], ["--"], ["-x"], ["--disk.limit", "8", "9"]])
def test_what_is_no_flag_is_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="unexpected argument"):
        split_collector_flags(words)


def test_flags_become_configuration_keys() -> None:
    given = [("no-collector.load", None), ("collector.disk", None), ("disk.limit", "8")]

    assert collector_overrides(given, {}) == {
        "collector.load.enabled": False,
        "collector.disk.enabled": True,
        "collector.disk.limit": 8,
    }


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("no-collector.warp", None, "no such option: --no-collector.warp"),
        ("warp.speed", "9", "no such option: --warp.speed"),
        ("disk.speed", "9", "no such option: --disk.speed"),
        ("disk.limit", None, "option --disk.limit requires an argument"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, value: str | None, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        collector_overrides([(flag, value)], {})


def test_a_flag_wins_over_its_variable() -> None:
    environ = {"KWHERE_COLLECTOR_LOAD": "false", "KWHERE_DISK_LIMIT": "3"}

    assert collector_overrides([("disk.limit", "8")], environ) == {
        "collector.load.enabled": False,
        "collector.disk.limit": 8,
    }


def test_a_variable_that_is_no_yaml_is_named() -> None:
    with pytest.raises(click.UsageError, match="KWHERE_DISK_LIMIT: expected a YAML value"):
        collector_overrides([], {"KWHERE_DISK_LIMIT": "[1"})
