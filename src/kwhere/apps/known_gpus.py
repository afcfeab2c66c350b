"""The GPUs that this node had: one that is missing after a reboot is shown as absent, not forgotten."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog
from pydantic import TypeAdapter, ValidationError

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import GpuDevice, GpuSnapshot

FILE = "gpus.json"
FORGOTTEN_NS = 14 * 86_400 * NANOSECONDS_PER_SECOND
"""A GPU that was not seen for so long was taken out."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A GPU and when it was last up."""

    device: GpuDevice
    seen_utc_ns: int


def read_known(state_dir: Path, utc_ns: int) -> list[KnownGpu]:
    """Return the GPUs of earlier starts; none where the file is missing or says nothing sensible, which is logged."""
    try:
        text = (state_dir / FILE).read_bytes()
    except OSError:
        return []
    try:
        found = TypeAdapter(list[KnownGpu]).validate_json(text)
    except ValidationError as error:
        log.warning("known GPUs could not be read", file=FILE, errors=error.error_count())
        return []
    return [known for known in found if utc_ns - known.seen_utc_ns < FORGOTTEN_NS]


def write_known(state_dir: Path, before: Iterable[KnownGpu], snapshots: Iterable[GpuSnapshot], utc_ns: int) -> None:
    """Keep the GPUs that are up now, and those of before that are not. A file that cannot be written is logged."""
    known = {one.device.uuid: one for one in before}
    for snapshot in snapshots:
        for state in snapshot.devices:
            if state.up:
                known[state.device.uuid] = KnownGpu(state.device, utc_ns)
    fresh = state_dir / f"{FILE}.new"
    try:
        fresh.write_text(json.dumps([asdict(one) for one in known.values()]))
        os.replace(fresh, state_dir / FILE)
    except OSError as error:
        log.warning("known GPUs could not be kept", file=FILE, why=error.strerror)
