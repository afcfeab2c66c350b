from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, current_thread

import pytest
from tests.gpu_node import UUIDS, NamedGpus, NamedUnits, gpu, held, job, mig_uuid, unit

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.gpu import GpuProcess
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings, ProcessNumbers
from kwhere.discovery.gpu_claims import ClaimSource, GpuClaim
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gpu_mapping import ClaimSourceState, GpuMapping, MappingParts
from kwhere.discovery.gpu_names import NodeFacts, Place
from kwhere.discovery.unit_source import TrackedUnit

ONE, TWO = job(1), job(2)
SECOND_NS = 1_000_000_000


@dataclass
class Said:
    """A source that says what the test wants."""

    source: ClaimSource = ClaimSource.PROLOG
    gpus: dict[str, list[int]] = field(default_factory=dict)
    fail: Exception | None = None
    hold: Event | None = None
    looks: int = 0
    looked: Event = field(default_factory=Event)
    threads: set[str] = field(default_factory=set)

    @property
    def sources(self) -> tuple[ClaimSource, ...]:
        return (self.source,)

    def find(self, node: GpuNode) -> Sequence[Hold]:
        self.looks += 1
        self.threads.add(current_thread().name)
        self.looked.set()
        if self.hold is not None:
            self.hold.wait()
        if self.fail is not None:
            raise self.fail
        return [
            Hold(one.key, Place(UUIDS[index]), self.source)
            for one in node.units.values()
            for index in self.gpus.get(one.key.unit, ())
        ]


class Node:
    """A mapping over two GPUs (the second divided), units and processes."""

    def __init__(
        self, *finders: Said, units: Sequence[TrackedUnit] = (ONE, TWO), sees: bool = True, **settings: object
    ):
        self.now_ns = 100 * SECOND_NS
        self.gpus = NamedGpus([gpu(0), gpu(1, instances=[(1, 0, "3g.20gb"), (2, 0, "3g.20gb")])])
        self.units = NamedUnits()
        self.units.add(*units)
        parts = MappingParts([self.gpus], [self.units], NodeFacts, lambda: sees, lambda: self.now_ns)
        self.mapping = GpuMapping(parts, finders, GpuMappingSettings.model_validate(settings))

    def claims(self) -> list[GpuClaim]:
        self.mapping.refresh()
        return list(self.mapping.claims())

    def run(self, index: int, *processes: GpuProcess) -> None:
        self.gpus.processes[UUIDS[index]] = processes

    def state(self, source: ClaimSource) -> ClaimSourceState:
        return next(state for state in self.mapping.states() if state.source is source)


def test_case_gpu_61_a_job_that_runs_nothing_holds_its_gpu() -> None:
    node = Node(Said(gpus={"1": [0]}))

    assert held(node.claims()) == {"1": ["0"]}
    node.mapping.close()


def test_claims_vanish_with_their_unit_one_step_later() -> None:
    node = Node(Said(gpus={"1": [0]}))
    node.claims()
    del node.units.units[ONE.key]

    last, after = held(node.mapping.claims()), held(node.mapping.claims())

    assert (last, after) == ({"1": ["0"]}, {})  # the step in which it ended is its own yet
    node.mapping.close()


def test_a_source_that_fails_takes_no_other_down() -> None:
    closed = Said(ClaimSource.CGROUP, fail=Unavailable("permission", "devices.list: closed"))
    broken = Said(ClaimSource.OAR, fail=SourceError("resources: expected text, found noise"))
    node = Node(closed, Said(gpus={"1": [0]}), broken)

    assert held(node.claims()) == {"1": ["0"]}
    assert node.state(ClaimSource.CGROUP) == ClaimSourceState(
        ClaimSource.CGROUP, False, "permission", "devices.list: closed"
    )
    assert node.state(ClaimSource.OAR).reason == "error"
    assert node.state(ClaimSource.PROLOG) == ClaimSourceState(ClaimSource.PROLOG, True, holds=1)
    node.mapping.close()


def test_what_a_source_said_stands_while_it_is_started_anew() -> None:  # a kind of case 33
    said = Said(gpus={"1": [0], "2": [0]})
    node = Node(said)
    node.claims()
    said.fail = Unavailable("absent", "gone")
    node.now_ns += 299 * SECOND_NS

    assert held(node.claims()) == {"1": ["0"], "2": ["0"]}
    assert node.state(ClaimSource.PROLOG) == ClaimSourceState(ClaimSource.PROLOG, False, "absent", "gone", holds=2)
    del node.units.units[TWO.key]
    node.claims()
    assert held(node.claims()) == {"1": ["0"]}

    node.now_ns += 2 * SECOND_NS
    assert node.claims() == []
    said.fail = None
    assert held(node.claims()) == {"1": ["0"]}
    node.mapping.close()


def test_a_source_that_hangs_holds_up_neither_the_step_nor_another() -> None:
    release = Event()
    hung, well = Said(ClaimSource.CGROUP, hold=release), Said(gpus={"1": [0]})
    node = Node(hung, well)
    node.mapping.claims()
    assert hung.looked.wait(30)
    assert well.looked.wait(30)
    node.now_ns += 60 * SECOND_NS

    state = node.state(ClaimSource.CGROUP)

    assert (state.up, state.reason) == (False, "timeout")
    assert well.threads == {"gpu-prolog"}
    release.set()
    node.mapping.close()


def test_new_units_are_looked_at_at_once() -> None:
    said = Said(gpus={"3": [0]})
    node = Node(said, refresh_seconds=600)
    node.now_ns += 3600 * SECOND_NS
    node.mapping.claims()
    assert said.looked.wait(30)
    said.looked.clear()

    node.units.add(job(3))
    node.mapping.claims()

    assert said.looked.wait(30)
    node.mapping.close()


def test_sources_are_turned_off_by_setting() -> None:
    said = Said(gpus={"1": [0]})
    node = Node(said, off=["prolog", "processes"])

    assert node.claims() == []
    assert (said.looks, node.mapping.states()) == (0, ())
    node.mapping.close()


def test_processes_hold_where_nobody_else_does() -> None:
    node = Node(Said(gpus={"1": [0]}))
    node.units.owners = {10: ONE.key, 20: TWO.key, 21: TWO.key}
    node.run(0, GpuProcess(10), GpuProcess(20))
    node.run(1, GpuProcess(10, gpu_instance=1, compute_instance=0), GpuProcess(20, gpu_instance=1, compute_instance=0))

    by_processes = [claim for claim in node.claims() if claim.source is ClaimSource.PROCESSES]

    assert held(by_processes) == {"1": [mig_uuid(1, 0)], "2": [mig_uuid(1, 0)]}
    assert [(claim.share, claim.exclusive) for claim in by_processes] == [(500, False), (500, False)]
    assert node.state(ClaimSource.PROCESSES).holds == 2
    node.mapping.close()


def test_a_process_whose_instance_is_not_known_holds_none() -> None:
    node = Node()
    node.units.owners = {10: ONE.key}
    node.run(1, GpuProcess(10))

    assert node.claims() == []
    node.mapping.close()


def test_case_gpu_54_a_process_nobody_knows_is_nobodys() -> None:
    node = Node()
    node.run(0, GpuProcess(99))

    assert node.claims() == []
    assert node.mapping.owner_of(99) is None
    node.mapping.close()


def test_case_gpu_54_numbers_of_another_namespace_are_not_taken_for_ours() -> None:
    node = Node(sees=False)
    node.units.owners = {10: ONE.key}
    node.run(0, GpuProcess(10))

    assert node.claims() == []
    assert node.mapping.owner_of(10) is None
    assert node.state(ClaimSource.PROCESSES).reason == "foreign_pids"
    node.mapping.close()


@pytest.mark.parametrize(("told", "sees", "owner"), [("ours", False, ONE.key), ("foreign", True, None)])
def test_a_site_can_say_whose_the_numbers_are(told: str, sees: bool, owner: object) -> None:
    node = Node(sees=sees, process_numbers=ProcessNumbers(told))
    node.units.owners = {10: ONE.key}
    node.mapping.claims()

    assert node.mapping.owner_of(10) == owner
    node.mapping.close()


def test_an_owner_is_asked_again_when_its_unit_is_gone_or_time_has_passed() -> None:
    node = Node()
    node.units.owners = {10: ONE.key}
    node.mapping.claims()
    assert node.mapping.owner_of(10) == ONE.key
    node.units.owners = {10: TWO.key}  # moved to another cgroup, or the number was given anew
    assert node.mapping.owner_of(10) == ONE.key

    node.now_ns += 6 * SECOND_NS

    assert node.mapping.owner_of(10) == TWO.key
    del node.units.units[TWO.key]
    node.mapping.claims()
    node.units.owners = {}
    assert node.mapping.owner_of(10) is None
    node.mapping.close()


def test_case_gpu_63_jobs_of_two_slurmd_hold_what_each_was_given() -> None:
    runs = [job(5, run=f"5@1.{name}", node_name=name) for name in ("n1", "n2")]
    node = Node(Said(gpus={"5": [0]}), units=runs)

    assert {claim.unit.run: claim.share for claim in node.claims()} == {"5@1.n1": 500, "5@1.n2": 500}
    node.mapping.close()


def test_a_service_that_runs_on_a_gpu_is_found_without_any_manager() -> None:
    service = unit("systemd", "ollama.service")
    node = Node(units=[service])
    node.units.owners = {7: service.key}
    node.run(0, GpuProcess(7))

    assert node.claims() == [GpuClaim(service.key, UUIDS[0], "", 1000, False, source=ClaimSource.PROCESSES)]
    node.mapping.close()


def test_a_copied_host_is_looked_at_within_the_step() -> None:
    said = Said(gpus={"1": [0]})
    node = Node(said)
    node.mapping = GpuMapping(
        MappingParts([node.gpus], [node.units], NodeFacts, lambda: True, lambda: 0, is_recorded=True), [said]
    )

    assert held(node.mapping.claims()) == {"1": ["0"]}
    assert said.threads == {current_thread().name}
