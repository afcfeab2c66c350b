"""The pass that counts the active users of each cluster with Kubeflow, each way of being active for itself."""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.active_users import users_at_work, users_who_began
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.resource_manager import ObservingManager
from kwhere.server.passes import Turn

SPAN_SECONDS = 7 * 86_400
EVERY_SECONDS = 600
_OWNER = "kube_owner_kind"
_PIPELINES = ("Workflow",)
_TRAINING = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "RayJob")
ACTIVE = MetricSpec(
    "kubeflow_active_users",
    Kind.GAUGE,
    "Users of the last 7 days: with a pod that used a GPU or 5 % of a CPU in some hour (pods), who began runs of"
    " pipelines or of workflows (pipelines), who began training (training).",
    ("source", "cluster"),
    is_borrowed=True,
)


class ActiveUsersPass:
    """Counts now and then; where there is no Kubeflow it has nothing to do."""

    name = "active users"

    def __init__(self, engine: Engine, managers: Sequence[BuiltManager], clock: Clock) -> None:
        self._engine = engine
        self._managers = [one for one in managers if isinstance(one.source, ObservingManager)]
        self._clock = clock
        self._due_ns = 0
        self._counts: dict[str, Mapping[str, int]] = {}

    def is_due(self) -> bool:
        """Return whether its time has come."""
        return bool(self._managers) and self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Count anew."""
        since_ns = self._clock.utc_ns() - SPAN_SECONDS * NANOSECONDS_PER_SECOND
        found: dict[str, Mapping[str, int]] = {}
        for manager in self._managers:
            if not turn.goes_on():
                return
            if isinstance(manager.source, ObservingManager) and any(True for _ in manager.source.samples("")):
                found[manager.settings.cluster] = self._count(manager, since_ns)
        self._counts = found
        if found:  # until Kubeflow is read for the first time it is looked for again
            self._due_ns = self._clock.monotonic_ns() + EVERY_SECONDS * NANOSECONDS_PER_SECOND
        else:
            self._due_ns = self._clock.monotonic_ns() + 60 * NANOSECONDS_PER_SECOND

    def samples(self) -> Iterator[Sample]:
        """Yield what was counted last; nothing before, and nothing on a server that does no passes. Any thread."""
        counts = self._counts
        for cluster, sources in sorted(counts.items()):
            for source, count in sources.items():
                yield Sample(ACTIVE, (source, cluster if len(self._managers) > 1 else ""), count)

    def _count(self, manager: BuiltManager, since_ns: int) -> dict[str, int]:
        where = (manager.settings.cluster, manager.claims, since_ns)
        with self._engine.connect() as connection:
            return {
                "pods": users_at_work(connection, *where),
                "pipelines": users_who_began(connection, *where, _OWNER, _PIPELINES),
                "training": users_who_began(connection, *where, _OWNER, _TRAINING),
            }
