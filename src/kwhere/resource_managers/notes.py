"""Writing a line on an ended unit into its manager's own records: what every manager that can do so needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field


class NoteSettings(BaseModel):
    """Whether and how figures are written into the manager's records of ended units."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    other_text: Literal["leave", "append"] = Field(
        default="leave",
        description="What to do where another tool's text stands: leave it alone, or append to it after a blank.",
    )
    excluded_projects: frozenset[str] = Field(
        default=frozenset(), description="Projects (accounts) of whose units nothing is ever written."
    )
    per_minute: int = Field(default=30, ge=1, le=600, description="Most units written about in one minute.")
    settle_seconds: float = Field(
        default=600.0, ge=0, description="How long after a unit's end it is written about at the earliest, in seconds."
    )
    most_days: float = Field(
        default=2.0, gt=0, le=30, description="A unit that ended longer ago than that is not written about any more."
    )


@dataclass(frozen=True, slots=True)
class NotedRun:
    """A run that has ended, as its manager knows it."""

    unit: str
    shown: str
    """As people write it there: `123_4`, `123+0`."""
    started_at: datetime


class NoteBook(Protocol):
    """Where a manager keeps a text about each unit. Methods raise Unavailable and SourceError."""

    settings: NoteSettings

    def read(self, runs: Sequence[NotedRun]) -> Mapping[NotedRun, str]:
        """Return the text of each run, "" where none stands; runs that cannot be written about are missing."""
        ...

    def write(self, run: NotedRun, text: str) -> None:
        """Let `text` stand there."""
        ...
