"""Which sources tell who holds a GPU."""

import pytest
from tests.doctor_place import found, recorded

from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_gpu_claims import CHECKS

SPEAKS = ClaimSourceState(ClaimSource.PROLOG, up=True, holds=2)
CLOSED = ClaimSourceState(ClaimSource.POD_RESOURCES, False, "permission", "kubelet.sock: Permission denied")
FOREIGN = ClaimSourceState(ClaimSource.PROCESSES, False, "foreign_pids", "another namespace")


def test_a_node_without_a_gpu_has_no_rows() -> None:
    assert found(CHECKS, recorded("xeon-2s-dram")) == {}


def test_a_source_that_speaks() -> None:
    check = found(CHECKS, recorded("xeon-2s-dram", gpu_claims=lambda: [SPEAKS]))["gpu_claims_prolog"]

    assert (check.state, check.found) == (CheckState.OK, "speaks; 2 holds now")


@pytest.mark.parametrize(("is_root", "remedies"), [(False, 1), (True, 0)])
def test_a_source_that_is_closed_names_its_place(is_root: bool, remedies: int) -> None:
    place = recorded("xeon-2s-dram", gpu_claims=lambda: [CLOSED], is_root=is_root)

    check = found(CHECKS, place)["gpu_claims_pod_resources"]

    assert (check.state, len(check.remedies)) == (CheckState.WARNING, remedies)
    assert check.why == "kubelet.sock: Permission denied. The place is gpu.mapping.kubelet_socket."


def test_case_gpu_54_foreign_process_numbers_are_explained() -> None:
    check = found(CHECKS, recorded("xeon-2s-dram", gpu_claims=lambda: [FOREIGN]))["gpu_claims_processes"]

    assert check.state is CheckState.WARNING
    assert "hostPID" in check.why


def test_sources_that_are_not_here_are_one_row() -> None:
    absent = [ClaimSourceState(source, False, "absent", "x") for source in (ClaimSource.PROLOG, ClaimSource.OAR)]

    checks = found(CHECKS, recorded("xeon-2s-dram", gpu_claims=lambda: absent))

    assert {name: check.found for name, check in checks.items()} == {"gpu_claims": "not on this node: prolog, oar"}
