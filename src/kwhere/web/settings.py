"""Settings of the pages."""

from pydantic import BaseModel, ConfigDict, Field


class WebSettings(BaseModel):
    """How pages behave."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refresh_seconds: float = Field(
        default=10.0, ge=1.0, le=3600.0, description="How often a live page asks for new figures, in seconds."
    )
    units_per_page: int = Field(default=50, ge=10, le=500, description="Rows of the units list, a count.")
