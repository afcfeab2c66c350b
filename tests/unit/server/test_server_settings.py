"""Settings of the server: defaults, and what is refused by name."""

import pytest
from pydantic import ValidationError

from kwhere.server.settings import ServerSettings, TargetGroup


def test_defaults_read_nobody_and_listen_on_loopback() -> None:
    settings = ServerSettings()

    assert (settings.listen, settings.targets, settings.pull_seconds) == ("127.0.0.1:9811", (), 30.0)
    group = TargetGroup(name="a", cluster="c")
    assert (group.scheme, group.hosts, group.checks_names) == ("https", (), True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a b"},
        {"name": ""},
        {"cluster": "c/1"},
        {"cluster": "-c"},
        {"scheme": "ftp"},
        {"refresh_seconds": 0},
        {"ceiling_watts": -1},
        {"client": {"token": "secret"}},
        {"urlz": []},
    ],
)
def test_a_wrong_target_group_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TargetGroup.model_validate({"name": "a", "cluster": "c", **wrong})


@pytest.mark.parametrize(
    "wrong",
    [{"pull_seconds": 0}, {"page_slots": 1001}, {"workers": 0}, {"pass_seconds": -1}, {"max_clock_offset_seconds": 0}],
)
def test_a_wrong_figure_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate(wrong)


@pytest.mark.parametrize("figure", ["nan", "inf"])
def test_no_endless_figures(figure: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate({"pull_seconds": figure})
