"""Which names of parameters and headers say that their value is a secret."""

import pytest

from kwhere.transport.secret_names import names_secret


@pytest.mark.parametrize("name", ["token", "API_KEY", "api-key", "apikey", "X-Auth-Token", "sig", "proxy-auth"])
def test_a_name_that_says_so_is_a_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["", "X-Scope-OrgID", "monkey", "tokens", "key_figure", "author", "query"])
def test_another_is_not(name: str) -> None:
    assert not names_secret(name)
