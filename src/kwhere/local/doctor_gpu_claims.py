"""Checks of what tells which unit holds a GPU."""

from collections.abc import Sequence

from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.local.doctor import Check, Examination, counted, missing, ok, warning
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import read_everything

_ABSENT = "absent"
_WHERE = {
    ClaimSource.PROLOG: "gpu.mapping.prolog_dirs",
    ClaimSource.POD_RESOURCES: "gpu.mapping.kubelet_socket",
    ClaimSource.DRA: "gpu.mapping.kubelet_socket",
    ClaimSource.OAR: "gpu.mapping.oar_dirs",
    ClaimSource.LIBVIRT: "units.libvirt_xml_dirs",
}
_FOREIGN = (
    "Processes on GPUs stay nobody's: run the agent in the host's pid namespace (hostPID, --pid=host), or set"
    " gpu.mapping.process_numbers to ours where both are the same."
)


def check_gpu_claims(place: Place) -> Sequence[Check]:
    """Say which sources tell who holds a GPU, and what keeps the others from it; nothing without a GPU."""
    states = place.gpu_claims()
    checks = [_check(state, place) for state in states if state.reason != _ABSENT]
    absent = [state.source.value for state in states if state.reason == _ABSENT]
    if absent:
        checks.append(missing("gpu_claims", f"not on this node: {', '.join(absent)}"))
    return checks


def _check(state: ClaimSourceState, place: Place) -> Check:
    name = f"gpu_claims_{state.source.value}"
    if state.up:
        return ok(name, f"speaks; {counted(state.holds, 'hold')} now")
    if state.source is ClaimSource.PROCESSES:
        return warning(name, "the process numbers are another namespace's", _FOREIGN)
    where = _WHERE.get(state.source)
    why = f"{state.message}." + (f" The place is {where}." if where else "")
    if state.reason == "permission" and not place.is_root:
        return warning(name, "root's alone", why, read_everything(place.user))
    return warning(name, f"does not answer: {state.reason}", why)


CHECKS = (Examination("gpu_claims", "Units", check_gpu_claims),)
"""Of the running machine alone."""
