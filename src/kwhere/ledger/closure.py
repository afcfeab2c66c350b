"""Whether a slot balances: what the meters said of each component against what its entries were given."""

from kwhere.core.terms import Component
from kwhere.ledger.rows import Slot


def residuals(slot: Slot) -> dict[Component, int]:
    """Return, for each component that does not close, the control's microjoules less the entries'; {} is balance."""
    rest = {control.component: control.energy_uj for control in slot.controls}
    for entry in slot.entries:
        for (component, _), energy_uj in entry.figures.energy_uj.items():
            rest[component] = rest.get(component, 0) - energy_uj
    return {component: energy_uj for component, energy_uj in rest.items() if energy_uj}
