"""Settings of the agent's loop (`agent.…`)."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.agent.guest_settings import GuestSettings
from kwhere.core.terms import IdlePolicy


class AgentSettings(BaseModel):
    """How the agent measures, and how it behaves as a guest on a compute node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str | None = Field(default=None, min_length=1, description="Name of this node; default: the host name.")
    node_names: tuple[str, ...] = Field(
        default=(), description="Further names of this node, where several slurmd share the host."
    )
    machine_id: str | None = Field(default=None, min_length=1, description="Machine id; default: /etc/machine-id.")
    boot_id: str | None = Field(
        default=None, min_length=1, description="Boot id; default: the kernel's (sys/kernel/random/boot_id)."
    )
    interval_seconds: float = Field(default=1.0, ge=0.1, le=60.0, description="Seconds between two steps.")
    slot_seconds: float = Field(default=60.0, ge=1.0, le=3600.0, description="Length of a ledger slot in seconds.")
    first_slot_seconds: float | None = Field(
        default=None, ge=0.1, description="Length of the first slot in seconds; default: as the others."
    )
    detail_seconds: float = Field(
        default=15.0, ge=1.0, le=3600.0, description="Seconds between full readings of every unit."
    )
    ended_seconds: float = Field(
        default=300.0, ge=0.0, le=86_400.0, description="Seconds for which an ended unit's series stay exported."
    )
    idle_policy: IdlePolicy = Field(
        default=IdlePolicy.ALLOCATION, description="How idle energy is shared: allocation, usage, equal or none."
    )
    idle_watts: dict[str, float] = Field(
        default_factory=dict,
        description="Idle watts of each domain, by cpu, dram (per socket), gpu (per device), other; default: learned.",
    )
    cpu_budget_ratio: float = Field(
        default=0.05, gt=0, le=1, description="Share of one CPU that the sampler may use before it slows down."
    )
    nice: int | None = Field(default=None, ge=-20, le=19, description="Niceness of the agent; default: left as it is.")
    cpu_affinity: tuple[int, ...] | None = Field(
        default=None, min_length=1, description="CPUs that the agent may run on; default: left as it is."
    )
    oom_score_adjust: int | None = Field(
        default=None, ge=-1000, le=1000, description="The agent's oom_score_adj; default: left as it is."
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        description="User that an agent started as root becomes; default: it stays root and says so.",
    )
    guests: GuestSettings = Field(
        default=GuestSettings(), description="What virtual machines on this host are told of themselves."
    )
    state: Path | None = Field(default=None, description="State directory; default: by systemd or XDG.")
