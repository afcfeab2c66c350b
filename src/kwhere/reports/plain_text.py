"""Names that people made, where they are shown: none drives a terminal or is run by a spreadsheet."""

import re

_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NEGATIVE = re.compile(r"-[0-9]+(?:\.[0-9]+)?")
_NOT_PLAIN = re.compile(r"[^\n -~]")


def visible(text: str) -> str:
    """Return `text` with what is no printable sign replaced: a job's name must not move the cursor of who reads it."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


def visible_lines(text: str) -> str:
    """Return `text` as `visible` does, with its line ends and tabs kept."""
    if text.isprintable():  # nearly all that a page shows
        return text
    return "".join(part if part in "\n\t" else visible(part) for part in re.split(r"([\n\t])", text))


def spreadsheet_cell(text: str) -> str:
    """Return `text` as a cell that no spreadsheet takes for a formula: an apostrophe stands before one.

    A negative number is none.
    """
    is_formula = text.startswith(_RUN_BY_SPREADSHEETS) and not _NEGATIVE.fullmatch(text)
    return f"'{text}" if is_formula else text


def escaped_signs(json_text: str) -> str:
    """Return JSON with signs that are not printable escaped: it says the same, and drives no terminal."""
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), json_text)


def _escaped(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
