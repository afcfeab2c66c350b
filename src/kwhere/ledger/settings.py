"""Settings of the journal."""

from pydantic import BaseModel, ConfigDict, Field


class JournalSettings(BaseModel):
    """How much of the account a node keeps for its readers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_days: float = Field(default=14.0, gt=0, description="Slots older than this many days are removed.")
    max_mebibytes: float = Field(
        default=512.0, ge=1, description="Oldest slots are removed when the journal holds more than this many MiB."
    )
