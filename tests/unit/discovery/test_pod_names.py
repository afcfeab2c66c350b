"""What a pod's name says of who made it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.discovery.pod_facts import guess_owner


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("web-7d9f6c5b8-x2x4z", "web"),
        ("web-server-5fd7c9b6cd-2bvkq", "web-server"),
        ("exporter-x2x4z", "exporter"),
        ("train-29932560-x2x4z", "train-29932560"),
        ("db-0", "db"),
        ("bert-worker-12", "bert-worker"),
        ("notebook", None),
        ("my-tests", None),
        ("web-7d9f-x2x", None),
        ("-0", None),
        ("", None),
    ],
)
def test_who_made_a_pod(name: str, owner: str | None) -> None:
    assert guess_owner(name) == owner


@given(st.text(max_size=300))
def test_any_name_says_something_or_nothing(name: str) -> None:
    found = guess_owner(name)

    assert found is None or (found and name.startswith(f"{found}-"))
