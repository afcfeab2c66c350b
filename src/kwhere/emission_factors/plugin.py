"""What a module of a provider ends with: `plugin = ProviderPlugin(…)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from kwhere.core.clock import Clock
from kwhere.emission_factors.provider import Basis, EmissionFactorProvider


class ProviderSettings(BaseModel):
    """Base of the settings of a provider; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


SettingsT = TypeVar("SettingsT", bound=ProviderSettings)


@dataclass(frozen=True, slots=True)
class ProviderPlugin(Generic[SettingsT]):
    """One provider: its name, what it is, its settings and how it is built. `build` raises ConfigError."""

    name: str
    summary: str
    settings_class: type[SettingsT]
    basis: Basis
    """What all its factors are of; others of it are refused."""
    build: Callable[[SettingsT, Clock], EmissionFactorProvider]
    is_live: bool = False
    """Whether it asks somebody else: then it is asked sparingly, and what it said is kept on disk."""
    answers_whole: bool = False
    """Whether an answer is all there is for the time asked about: what it lacks is no longer so."""


AnyProviderPlugin = ProviderPlugin[Any]
