"""Every error kwhere raises on purpose, drawn once.

KwhereError
├── ConfigError          a setting or a file of settings is wrong; names the key
├── Unavailable          a source is not here or may not be read: at build or for good
│                        (`reason` is one word: absent, permission, unsupported, below_components, …)
├── NoData               a source is here and has nothing to say now; not a failure
├── SourceError          a source answered nonsense
│   └── TooMuch          a source refuses a question for its size; a smaller one may be answered
├── JournalError         the journal cannot be read or written
├── WireError            a ledger page is not what the format says
│   └── UnknownFormat    another version's page; names both versions
├── IntakeRefused        a page is well formed and yet must not be booked
├── NotFound             what was asked for is not there, or the asker may not know that it is
└── NotPermitted         the asker may not do this
"""


class KwhereError(Exception):
    """Root of the tree; its text is shown to a person, so it says place, expectation and finding."""


class ConfigError(KwhereError):
    """A setting is wrong. The message starts with the settings key."""


class Unavailable(KwhereError):  # noqa: N818 - the house's word
    """A source is absent or closed to us; `reason` is one word, the message says more."""

    def __init__(self, reason: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        """How long the source wants to be left alone, in seconds, where it said so."""


class NoData(KwhereError):  # noqa: N818 - the house's word
    """A source has nothing to say at present; not a failure."""


class SourceError(KwhereError):
    """A source answered nonsense; the message says what was expected and what was found."""


class TooMuch(SourceError):  # noqa: N818 - the house's word
    """A source refuses a question for its size; a smaller one may be answered."""


class JournalError(KwhereError):
    """The journal cannot be read or written; `cause` is one word (full, read_only, corrupt, foreign, …)."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class WireError(KwhereError):
    """A ledger page is not what the format says."""


class UnknownFormat(WireError):  # noqa: N818 - the house's word
    """A ledger page of a format this version does not read."""


class IntakeRefused(KwhereError):  # noqa: N818 - the house's word
    """A well-formed page that must not be booked: wrong digest, foreign journal, two targets on one epoch."""


class NotFound(KwhereError):  # noqa: N818 - the house's word
    """Nothing of that name, or nothing the asker may know of."""


class NotPermitted(KwhereError):  # noqa: N818 - the house's word
    """The asker may not do this; the message says why and whom to ask."""
