import json
from pathlib import Path

from tests.unit.ledger.slots import header, slot

from kwhere.ledger.wire import encode_header, encode_slot

PAGE = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text()


def test_every_key_of_the_wire_is_documented() -> None:
    keys = {**json.loads(encode_header(header())), **json.loads(encode_slot(slot(), None))}
    keys |= json.loads(encode_slot(slot(), None))["control"]["cpu"]

    assert not [key for key in keys if f"`{key}`" not in PAGE]
