"""What the environments of a unit's processes say of its GPUs. Pure; anybody may write into his own environment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import Vendor
from kwhere.discovery import kubernetes, slurm
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, Hold, is_job_manager
from kwhere.discovery.gpu_names import Place
from kwhere.discovery.gres_conf import GresBits

NAMES = (
    "SLURM_JOB_ID",
    "SLURMD_NODENAME",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_SHARDS_ON_NODE",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "NVIDIA_VISIBLE_DEVICES",
)
_VISIBLE = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_OF_RUNTIME = "NVIDIA_VISIBLE_DEVICES"
"""Read by the container runtime on the host: its numbers are the library's indices, of MIG `index:instance`."""
_BY_NUMBER = ("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_TILE = re.compile(r"\.[0-9]{1,2}")
"""Of `ZE_AFFINITY_MASK`: `0.1` is a part of device 0."""
_RUNTIME_NUMBER = re.compile(r"([0-9]{1,4})(?::([0-9]{1,3}))?")
_MOST = 1024

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Share:
    share: int | None = None
    exclusive: bool | None = None


def holds_of(unit: UnitKey, environments: Sequence[Environment], node: GpuNode, bits: GresBits) -> list[Hold]:
    """Return what a unit holds by the environments of its processes; none where these do not say it."""
    if unit.manager == slurm.MANAGER:
        own = [found for found in environments if found.get("SLURM_JOB_ID") in (unit.unit, None)]
        return _of_job(unit, own, node, bits)
    exclusive = None if is_job_manager(unit.manager) or unit.manager == kubernetes.MANAGER else False
    places = dict.fromkeys([*_seen(environments, node), *_given_by_runtime(environments, node)])
    return [Hold(unit, place, ClaimSource.ENVIRON, exclusive=exclusive) for place in places]


def slurmd_of(environments: Sequence[Environment]) -> str | None:
    """Return SLURM's name of this node, which need not be the host's."""
    return next((name for env in environments if (name := env.get("SLURMD_NODENAME"))), None)


def numbers(text: str) -> list[int] | None:
    """Return the numbers of a list as `0,3` or `0-2`; None for anything else, also for an empty one."""
    found: list[int] = []
    for word in filter(None, map(str.strip, text.split(","))):
        pair = _RANGE.fullmatch(word)
        if pair is None:
            return None
        first, last = int(pair[1]), int(pair[2] or pair[1])
        if last < first or last - first >= _MOST or len(found) >= _MOST:
            return None
        found.extend(range(first, last + 1))
    return found or None


def _of_job(unit: UnitKey, environments: Sequence[Environment], node: GpuNode, bits: GresBits) -> list[Hold]:
    places = _by_bits(environments, bits) or _seen(environments, node) or _by_visible_numbers(environments, bits)
    listed = dict.fromkeys(places)
    return [
        Hold(unit, place, ClaimSource.ENVIRON, share.share, share.exclusive)
        for place in listed
        for share in (_share(environments, place, len(listed), bits),)
    ]


def _by_bits(environments: Sequence[Environment], bits: GresBits) -> list[Place]:
    """Return the job's GPUs: of the job's own list, else of all its steps' lists."""
    for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS"):
        lists = [found for env in environments if (found := numbers(env.get(name, ""))) is not None]
        if lists:
            wanted = lists[:1] if name == "SLURM_JOB_GPUS" else lists
            return [place for numbered in wanted for bit in numbered for place in bits.places(bit)]
    return []


def _seen(environments: Sequence[Environment], node: GpuNode) -> list[Place]:
    """Return the GPUs that are made visible by name. `all`, `void`, `none` and bare numbers name none."""
    return [
        place
        for env in environments
        for name in _VISIBLE
        for word in env.get(name, "").split(",")
        if not word.strip().isdigit()
        for place in node.names.find(word)
    ]


def _given_by_runtime(environments: Sequence[Environment], node: GpuNode) -> list[Place]:
    names = node.names.of(Vendor.NVIDIA)
    return [
        place
        for env in environments
        for word in env.get(_OF_RUNTIME, "").split(",")
        if (told := _RUNTIME_NUMBER.fullmatch(word.strip())) is not None
        for place in names.by_place(int(told[1]), None if told[2] is None else int(told[2]))
    ]


def _by_visible_numbers(environments: Sequence[Environment], bits: GresBits) -> list[Place]:
    """Return GPUs by the numbers that a job without a list sees: numbers that cannot be its own count from 0."""
    for env in environments:
        given = numbers(env.get("SLURM_GPUS_ON_NODE", ""))
        if given is None or len(given) != 1:
            continue
        for name in _BY_NUMBER:
            seen = numbers(_TILE.sub("", env.get(name, "")))
            if seen and (given[0] == len(bits.order) or max(seen) >= given[0]):
                return [place for bit in seen for place in bits.places(bit)]
    return []


def _share(environments: Sequence[Environment], place: Place, places: int, bits: GresBits) -> _Share:
    """Return how much of each GPU a job holds: shards of those that the GPU has, MPS per cent, or all of it."""
    shards = next(_positive(environments, "SLURM_SHARDS_ON_NODE"), None)
    if shards is not None:
        total = bits.shards_of(place)
        return _Share(min(WHOLE, shards * WHOLE // (places * total)) if total else None, False)
    of_slurm = [env for env in environments if "SLURM_JOB_GPUS" in env or "SLURM_STEP_GPUS" in env] or environments
    told = [next(_positive([env], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), None) for env in of_slurm]
    percent = min((found for found in told if found is not None), default=None)
    if percent is not None and None not in told:  # else the user set it for processes of his own
        return _Share(min(WHOLE, percent * WHOLE // 100), False)
    return _Share(WHOLE, True)


def _positive(environments: Sequence[Environment], name: str) -> Iterator[int]:
    for env in environments:
        text = env.get(name, "").strip().partition(".")[0]
        if text.isascii() and text.isdigit() and len(text) < 7 and int(text) > 0:
            yield int(text)
