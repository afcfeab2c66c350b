"""Lines from a child process back into records; whatever is no record is a SourceError."""

from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from kwhere.core.errors import SourceError
from kwhere.devices.gpu_library import Message


@cache
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def read_message(line: bytes) -> Message:
    """Return the record of one line. Raises SourceError."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SourceError(f"GPU library's process: {place or 'line'}: {first['msg']}") from error
