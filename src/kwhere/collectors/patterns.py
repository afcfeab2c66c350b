"""A setting that is a regular expression."""

import re
from typing import Annotated

from pydantic import AfterValidator


def _compiles(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression, found {text!r}: {error}") from error
    return text


Pattern = Annotated[str, AfterValidator(_compiles)]
"""Refused at start where it does not compile."""
