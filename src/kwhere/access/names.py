"""Names of principals: matched exactly, so nothing that could look like another name by accident or design gets in."""

import unicodedata

MOST_BYTES = 255


def checked_name(text: str) -> str:
    """Return `text` if it can be a principal's name; nothing of it is changed. Raises ValueError that says why not."""
    if not text:
        raise ValueError("is empty")
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise ValueError(f"is longer than {MOST_BYTES} bytes")
    if any(unicodedata.category(sign)[0] in "CZ" for sign in text):
        raise ValueError("holds a space, or a sign that cannot be seen")
    if unicodedata.normalize("NFC", text) != text:
        raise ValueError("is not in Unicode's normal form NFC")
    if text.isdigit():
        raise ValueError("is a number, which would match a numeric user id")
    return text


def header_name(value: bytes) -> str:
    """Return the name in a header's value, whose encoding HTTP leaves open: ASCII alone. Raises ValueError."""
    try:
        text = value.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("holds bytes that are not ASCII") from None
    if "," in text or ";" in text:
        raise ValueError("holds a list; it must be one name")
    return checked_name(text)
