"""What every unit test leaves behind is tidied up."""

from collections.abc import Iterator

import pytest
from tests.unit.ledger.journals import close_journals


@pytest.fixture(autouse=True)
def _closed_journals() -> Iterator[None]:
    """Close the journals that a test opened and left."""
    yield
    close_journals()
