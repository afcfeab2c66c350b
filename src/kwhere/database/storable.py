"""What of a manager's words fits into a column."""

LARGEST = 2**62
ACCOUNT_LENGTH = 255
STATE_LENGTH = 32
TEXT_LENGTH = 4096


def cut(word: str | None, most: int) -> str | None:
    """Return a word in at most so many bytes of UTF-8, without NUL, which PostgreSQL does not take."""
    if word is None:
        return None
    clean = word.replace("\0", "")
    return clean.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def bounded(value: int | None) -> int | None:
    """Return a number that a column holds."""
    return None if value is None else min(value, LARGEST)


def fits(word: str) -> bool:
    """Return whether a word can name an account or a node."""
    return 0 < len(word.encode("utf-8", "replace")) <= ACCOUNT_LENGTH and "\0" not in word
