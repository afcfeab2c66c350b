"""From records of inventory and directory to what the API tells."""

from kwhere.api.inventory_models import NodeFactsView, PersonView, RackView
from kwhere.core.quantities import joules
from kwhere.database.grid import from_ns
from kwhere.database.inventory_records import PersonRecord, RackRecord
from kwhere.database.node_facts import NodeFacts


def facts_view(facts: NodeFacts) -> NodeFactsView:
    """Return what the inventory says of a node."""
    retired_at = None if facts.retired_ns is None else from_ns(facts.retired_ns)
    return NodeFactsView(facts.rack, facts.type, facts.power_limit_watts, facts.meter, retired_at)


def rack_view(record: RackRecord) -> RackView:
    """Return a rack."""
    return RackView(
        cluster=record.cluster,
        rack=record.rack,
        nodes=record.nodes,
        nodes_up=record.up,
        power_watts=None if record.power_uw is None else joules(record.power_uw),
        power_limit_watts=record.limit_watts,
        limit_is_summed=record.is_limit_summed,
    )


def person_view(record: PersonRecord) -> PersonView:
    """Return a person."""
    return PersonView(record.shown_name, record.full_name, record.mail, record.language, record.opted_out)
