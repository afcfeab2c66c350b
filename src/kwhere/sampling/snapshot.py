"""From the sampler's running sums to the immutable snapshot that readers get."""

from collections.abc import Callable, Collection

from kwhere.core.terms import Component
from kwhere.ledger.rows import ENERGY_COLUMNS
from kwhere.meters.meter import PLATFORM
from kwhere.sampling.accounts import Account
from kwhere.sampling.gpu_shown import UnitGpu
from kwhere.sampling.meter_bank import COMPONENT_OF
from kwhere.sampling.step import Sampler
from kwhere.sampling.totals import EnergyRow, IdleBaselineNow, SourceTotals, StepCounts, Totals, UnitTotals


def build_totals(sampler: Sampler, counts: StepCounts) -> Totals:
    """Return everything since the process began, as it stands after the last step."""
    components = sampler.control.totals_uj()
    bank, energy, gpus = sampler.parts.bank, sampler.parts.energy, sampler.parts.gpus
    return Totals(
        created_utc_ns=sampler.created_utc_ns,
        utc_ns=sampler.last_utc_ns,
        units=tuple(
            unit_totals(account, components, gpus.shown.of(key) if gpus is not None else ())
            for key, account in sorted(sampler.accounts.units.items())
            if account.unit
        ),
        system_uj=energy_row(sampler.accounts.system, components),
        unallocated_uj=energy_row(sampler.accounts.unallocated, components),
        node_uj=dict(components),
        meters_uj=dict(bank.totals_uj),
        sources={
            source: SourceTotals(
                health.up,
                health.reason,
                dict(bank.gaps[source].by_cause) if source in bank.gaps else {},
                bank.gaps[source].duration_ns if source in bank.gaps else 0,
                bank.covers(source),
                health.silent,
            )
            for source, health in bank.health.items()
        },
        methods=dict(sampler.control.sources()),
        idle=idle_in_force(sampler),
        carry_uj=energy.platform.carry_uj if energy.platform is not None and not energy.platform.off else None,
        residual_uj=residual_uj(sampler),
        system_cpu_ns=sampler.accounts.system.sums.cpu_ns,
        counts=counts,
        slots=sampler.slots,
    )


def residual_uj(sampler: Sampler) -> int:
    """Return what meters said beyond, or short of, what was booked: of closed slots and of everything so far; 0."""
    booked = sampler.accounts.energy_uj()
    open_uj = sum(abs(energy_uj - booked[component]) for component, energy_uj in sampler.control.totals_uj().items())
    return max(open_uj, sampler.residual_uj)


def idle_in_force(sampler: Sampler) -> tuple[IdleBaselineNow, ...]:
    """Return the idle power of every domain that speaks for the node."""
    bank, platform = sampler.parts.bank, sampler.parts.energy.platform
    found = []
    for (source, domain), baseline in sampler.parts.energy.baselines.items():
        if domain == PLATFORM and platform is not None and platform.source == source:
            found.append(IdleBaselineNow(Component.OTHER, "", baseline.idle_uw, baseline.origin))
        elif bank.speaks(source, domain.kind):
            found.append(IdleBaselineNow(COMPONENT_OF[domain.kind], domain.index, baseline.idle_uw, baseline.origin))
    return tuple(found)


def unit_totals(account: Account, components: Collection[Component], gpus: tuple[UnitGpu, ...] = ()) -> UnitTotals:
    """Return one unit's totals."""
    assert account.unit is not None
    user_ns, system_ns = account.shown_modes()
    return UnitTotals(
        tracked=account.unit,
        live=account.ended_ns is None,
        energy_uj=energy_row(account, components),
        cpu=account.cpu,
        cpu_user_ns=user_ns,
        cpu_system_ns=system_ns,
        detail=account.detail,
        power_uw=account.power_uw,
        gpus=gpus,
    )


def energy_row(account: Account, components: Collection[Component]) -> EnergyRow:
    """Return energy by component and part, of the components that a meter ever spoke of."""
    return {column: account.sums.energy_uj[i] for i, column in enumerate(ENERGY_COLUMNS) if column[0] in components}


def attach(sampler: Sampler, counts: Callable[[], StepCounts]) -> None:
    """Let the sampler's board build its snapshots from here on."""
    sampler.parts.board.attach(lambda: build_totals(sampler, counts()))
