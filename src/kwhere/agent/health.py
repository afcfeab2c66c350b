"""Whether the agent does what it is for."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """What /healthz says: 200 if `ok`, else 503 with the reasons, each a sentence for a person."""

    ok: bool
    reasons: tuple[str, ...] = ()
    facts: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
