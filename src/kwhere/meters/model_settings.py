"""Settings of the model (`meters.model.…`)."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ModelSettings(BaseModel):
    """What replaces the model's table on this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calibration: Path | None = Field(
        default=None,
        description="File that `kwhere calibrate` wrote; default: calibration.json of the state directory.",
    )
    idle_watts: float | None = Field(
        default=None, gt=0, le=100_000, description="Watts of all idle CPUs together, by hand; default: not set."
    )
    watts_per_busy_cpu: float | None = Field(
        default=None, gt=0, le=10_000, description="Watts that one busy CPU adds, by hand; default: not set."
    )
