from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.gpu_node import unit

from kwhere.collectors import gpu_claims
from kwhere.collectors.collector import CollectorContext
from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holders import NodeMapping
from kwhere.discovery.gpu_machines import HiddenGpu
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.kernel.hostfs import HostFS

NOWHERE = HostFS(Path("/nowhere"), Path("/nowhere"))


class Mapping:
    """What a mapping says, by hand."""

    def __init__(self, states: Sequence[ClaimSourceState], hidden: tuple[HiddenGpu, ...] = ()) -> None:
        self.holders = self
        self._states = states
        self._hidden = hidden

    def states(self) -> Sequence[ClaimSourceState]:
        return self._states

    def hidden(self) -> tuple[HiddenGpu, ...]:
        return self._hidden


def samples(mapping: Mapping) -> list[tuple[str, tuple[str, ...], float]]:
    context = CollectorContext(NOWHERE, SystemClock(), gpu_mapping=cast(NodeMapping, mapping))
    collector = gpu_claims.plugin.build(context, gpu_claims.GpuClaimsSettings())
    return [(sample.spec.name, sample.labels, sample.value) for sample in collector.collect()]


def test_sources_on_this_node_and_what_keeps_them() -> None:
    mapping = Mapping(
        [
            ClaimSourceState(ClaimSource.PROLOG, up=True, holds=3),
            ClaimSourceState(ClaimSource.POD_RESOURCES, False, "timeout", "kubelet: no answer"),
            ClaimSourceState(ClaimSource.OAR, False, "absent", "not here"),
        ]
    )

    assert samples(mapping) == [
        ("kwhere_gpu_claims_source_up", ("prolog", ""), 1),
        ("kwhere_gpu_claims_held", ("prolog",), 3),
        ("kwhere_gpu_claims_source_up", ("pod_resources", "timeout"), 0),
    ]


def test_a_gpu_that_a_guest_has_is_shown_without_power() -> None:
    machine = unit("libvirt", "57f2", run="57f2@1").key

    assert samples(Mapping([], (HiddenGpu(machine, "0000:15:00.0"),))) == [
        ("kwhere_gpu_hidden_info", ("libvirt", "57f2", "57f2@1", "0000:15:00.0"), 1)
    ]


def test_a_node_without_gpus_has_none_of_it() -> None:
    with pytest.raises(Unavailable):
        gpu_claims.plugin.build(CollectorContext(NOWHERE, SystemClock()), gpu_claims.GpuClaimsSettings())
