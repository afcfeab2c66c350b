"""`kwhere config`: what a person learns of the settings before a role starts."""

from pathlib import Path

import pytest
import yaml

from kwhere.cli.main import run_root


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("site: {zoone: FR}", "site.zoone: unknown key (did you mean zone?)"),
        ("site: {zone: XX}", "site.zone: expected a country"),
        ("site: {cluster_zones: {lyon: XX}}", "site.cluster_zones.lyon: expected a country"),
        ("agent: {interval_seconds: 0.001}", "agent.interval_seconds: "),
        ("collector: {nope: {enabled: false}}", "nope"),
        ("emission_factors: {reporting: nope}", "emission_factors.reporting"),
        ("inventories: [{source: sql}]", "inventories.0.source: expected one of csv, "),
        ("inventories: [{source: csv}]", "inventories.0: expected at least one of nodes_file"),
        ("resource_managers: [{manager: pbs}]", "resource_managers.0.manager: expected one of "),
    ],
)
def test_check_names_the_wrong_key(tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text(text)

    code = run_root(["config", "check", str(file)])

    assert code == 2
    assert said in capsys.readouterr().err


def test_check_says_which_file_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text("site: {zone: FR, time_zone: Europe/Paris, pue_ratio: 1.0}")

    code = run_root(["config", "check", str(file)])

    assert code == 0
    assert capsys.readouterr().out == f"settings are right ({file})\n"


def test_what_show_prints_is_a_file_that_check_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text("site: {zone: FR}")
    assert run_root(["config", "show", "--config.file", str(file)]) == 0
    shown = capsys.readouterr().out
    whole = tmp_path / "whole.yaml"
    whole.write_text(shown)

    assert run_root(["config", "check", str(whole)]) == 0
    assert yaml.safe_load(shown)["site"]["zone"] == "FR"
