"""Settings of the perf unit `power` (`meters.perf.…`)."""

from pydantic import BaseModel, ConfigDict, Field


class PerfSettings(BaseModel):
    """When energy is also counted by perf events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beside_powercap: bool = Field(
        default=False,
        description=(
            "Whether RAPL is counted by perf events too where powercap can be read: for comparison, powercap speaks."
        ),
    )
