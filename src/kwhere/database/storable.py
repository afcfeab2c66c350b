"""What of a manager's words fits into a column."""

LARGEST = 2**62
MOST_COUNTED = 2**31 - 1
ACCOUNT_LENGTH = 255
STATE_LENGTH = 32
TEXT_LENGTH = 4096
ERROR_LENGTH = 1000


def cut(word: str | None, most: int) -> str | None:
    """Return a word in at most so many bytes of UTF-8, without NUL, which PostgreSQL does not take."""
    if word is None:
        return None
    clean = word.replace("\0", "")
    return clean.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def bounded(value: int | None, most: int = LARGEST) -> int | None:
    """Return a number that a column holds: of 64 bits, or with `MOST_COUNTED` of 32."""
    return None if value is None else min(value, most)


def fits(word: str, most: int = ACCOUNT_LENGTH) -> bool:
    """Return whether a word can be a key of at most so many bytes: the name of an account or a node, a unit's id."""
    try:
        return 0 < len(word.encode()) <= most and "\0" not in word
    except UnicodeEncodeError:  # half of a pair, as JSON may escape it
        return False
