"""Settings of finding units, as a YAML file gives them."""

import pytest
from pydantic import ValidationError

from kwhere.discovery.settings import ProcessMode, UnitsSettings


@pytest.mark.parametrize(("value", "mode"), [(False, "off"), (True, "on"), ("auto", "auto"), ("off", "off")])
def test_on_and_off_are_words_even_where_yaml_reads_booleans(value: object, mode: str) -> None:
    assert UnitsSettings.model_validate({"processes": value}).processes is ProcessMode(mode)


def test_another_word_is_refused() -> None:
    with pytest.raises(ValidationError):
        UnitsSettings.model_validate({"processes": "sometimes"})
