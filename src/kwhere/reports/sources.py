"""What API and pages are built from; apps/ fills it in once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kwhere.access.principal import Principal
from kwhere.core.clock import Clock
from kwhere.database.witness import Witness
from kwhere.emission_factors.provider import EmissionFactorProvider
from kwhere.energy.steps import Steps
from kwhere.reports.account import Account
from kwhere.reports.agreement import Agreements, NoAgreements
from kwhere.reports.optional import OptionalFigures
from kwhere.reports.retention import NoRetentions, Retentions
from kwhere.series.store import SeriesStore


@dataclass(frozen=True, slots=True)
class Hint:
    """A next step for the operator: what is missing, what opens it, what takes that back."""

    title: str
    text: str
    command: str | None = None
    undo: str | None = None


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting as Methodology shows it."""

    key: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """A country or grid zone that a factor exists for."""

    zone: str
    name: str


def _nothing() -> Sequence[Hint]:
    return ()


def _no_settings() -> Sequence[SettingInForce]:
    return ()


def _no_pue() -> Steps[float]:
    return Steps((0,), (1.0,))


def _no_faults() -> Sequence[str]:
    return ()


def _nobody(principal: Principal) -> Witness | None:
    return None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where figures come from. `series` None: no store of series, charts come from the account alone."""

    account: Account
    clock: Clock
    series: SeriesStore | None = None
    time_zone: str = "UTC"
    """The site's zone, in which pages show times."""
    pue: Callable[[], Steps[float]] = field(default=_no_pue)
    """Power usage effectiveness by time, in every gram."""
    optional: OptionalFigures = field(default=OptionalFigures())
    """Which figures are switched on."""
    faults: Callable[[], Sequence[str]] = field(default=_no_faults)
    """What of the server's own work fails, one sentence each."""
    choose_zone: Callable[[str, str], None] | None = None
    """Books the zone that somebody (second) chose on a page. Raises ConfigError for one without a factor.

    None: it cannot be changed here.
    """
    zones: Sequence[ZoneChoice] = ()
    """What may be chosen, by name."""
    factor_providers: Sequence[EmissionFactorProvider] = ()
    """The reporting provider of emission factors and those beside it, for what lies ahead."""
    hints: Callable[[], Sequence[Hint]] = field(default=_nothing)
    """What to do next on this site, the most useful first."""
    agreements: Agreements = field(default_factory=NoAgreements)
    """Whether nodes' meters agreed when somebody last looked."""
    retentions: Retentions = field(default_factory=NoRetentions)
    """How far back each cluster's series go."""
    settings_in_force: Callable[[], Sequence[SettingInForce]] = field(default=_no_settings)
    version: str = ""
    principal: Principal = field(default=Principal("nobody", frozenset(), "nobody asks"))
    """Who asks: what `account` shows is what they may see."""
    witness_of: Callable[[Principal], Witness | None] = field(default=_nobody)
    """Who is told what a principal reads."""

    def seen_by(self, principal: Principal) -> "Sources":
        """Return the same sources as far as `principal` may see them."""
        account = self.account.seen_by(principal.visibility, self.witness_of(principal))
        seen = replace(self, account=account, principal=principal)
        if not principal.may_change:
            seen = replace(seen, choose_zone=None)
        if principal.sees_everything:
            return seen
        return replace(seen, hints=_nothing, faults=_no_faults, agreements=NoAgreements())
