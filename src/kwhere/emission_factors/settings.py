"""Settings of emission factors."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class EmissionFactorSettings(BaseModel):
    """Which provider answers, and what steps in where it does not. For which zone: `site.zone`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reporting: str = Field(default="static", description="The provider whose figures are the reported ones.")
    beside: tuple[str, ...] = Field(default=(), description="Providers that are shown beside it.")
    providers: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict, description="Settings of providers, by their name."
    )
    last_good_hours: float = Field(
        default=6.0, ge=0, description="How long the last live figure stands in for a missing one, in hours."
    )
    world_fallback: bool = Field(
        default=False, description="Whether the world's mean may stand in where nothing is known of the country."
    )
