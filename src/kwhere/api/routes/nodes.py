"""Clusters and nodes, and whether a node's books balance."""

from datetime import timedelta
from typing import Annotated

from fastapi import Query

from kwhere.api.context import After, Cluster, From, Limit, SourcesOf, To, span_of
from kwhere.api.inventory_models import RackView
from kwhere.api.inventory_views import rack_view
from kwhere.api.models import ClusterView, Page, ReconciliationView
from kwhere.api.node_meters import reconciliation_view
from kwhere.api.node_models import Balance, NodeView
from kwhere.api.routers import api_router
from kwhere.api.views import balance_view, cluster_view, node_view
from kwhere.core.errors import NotFound
from kwhere.database.records import NodeState
from kwhere.reports.reconciliation import reconcile_node
from kwhere.reports.store_words import NO_STORE
from kwhere.series.charts import NodeRef

router = api_router("nodes")


@router.get("/clusters")
def list_clusters(sources: SourcesOf) -> Page[ClusterView]:
    """Return every cluster."""
    return Page(items=[cluster_view(record) for record in sources.account.clusters()])


@router.get("/nodes")
def list_nodes(
    sources: SourcesOf,
    cluster: Cluster = None,
    state: Annotated[NodeState | None, Query(description="Only nodes in this state")] = None,
    limit: Limit = 500,
    after: After = None,
) -> Page[NodeView]:
    """Return nodes by name, page by page."""
    page = sources.account.nodes(cluster, state, after, limit)
    items = [node_view(record, sources.agreements.of(record.cluster, record.node)) for record in page.items]
    return Page(items=items, next=page.next)


@router.get("/racks")
def list_racks(sources: SourcesOf, cluster: Cluster = None) -> Page[RackView]:
    """Return the racks of the inventory that have nodes here: their power now against what they may draw."""
    return Page(items=[rack_view(record) for record in sources.account.racks(cluster)])


@router.get("/nodes/{node}")
def one_node(sources: SourcesOf, node: str, cluster: Cluster = None) -> NodeView:
    """Return a node; 409 where several clusters have one of that name and none is named."""
    record = sources.account.node(node, cluster)
    return node_view(record, sources.agreements.of(record.cluster, record.node))


@router.get("/nodes/{node}/balance")
def node_balance(
    sources: SourcesOf,
    node: str,
    cluster: Cluster = None,
    start: From = None,
    to: To = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Newest slots")] = 1000,
) -> Balance:
    """Return the node's slots in time order: node = units + system + unallocated, to the microjoule."""
    record = sources.account.node(node, cluster)
    span = span_of(sources, start, to, timedelta(hours=1))
    return balance_view(tuple(sources.account.balance(record.cluster, record.node, span, limit)))


@router.get("/nodes/{node}/reconciliation")
def node_reconciliation(
    sources: SourcesOf, node: str, cluster: Cluster = None, start: From = None, to: To = None
) -> ReconciliationView:
    """Return the node's meters against each other: the whole node's against its components, and two of one thing."""
    record = sources.account.node(node, cluster)
    span = span_of(sources, start, to, timedelta(hours=1))
    if sources.series is None:
        raise NotFound(f"node {node}: {NO_STORE}")
    return reconciliation_view(reconcile_node(sources.series, NodeRef(record.cluster, record.node), span))
