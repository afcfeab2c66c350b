"""Reading the ledger's column `gpus`."""

from collections.abc import Mapping

from kwhere.core.errors import WireError
from kwhere.ledger.gpu_uses import NUMBER_NAMES, TEXT_NAMES, GpuUse
from kwhere.ledger.json_values import excerpt, integer, text


def read_gpus(value: object, place: str) -> tuple[GpuUse, ...]:
    """Return what the column says. Raises WireError."""
    if value is None or value == []:
        return ()
    if not isinstance(value, list):
        raise WireError(f"{place} gpus: expected a list, found {excerpt(value)}")
    uses = tuple(_read(item, f"{place} gpu {number}") for number, item in enumerate(value))
    if len({use.place for use in uses}) != len(uses):
        raise WireError(f"{place} gpus: expected each device or instance once")
    return uses


def _read(item: object, place: str) -> GpuUse:
    if not isinstance(item, Mapping):
        raise WireError(f"{place}: expected an object, found {excerpt(item)}")
    words = {name: text(item[name], f"{place} {name}") for name in TEXT_NAMES if item.get(name) is not None}
    if not words.get("device"):
        raise WireError(f"{place} device: expected a uuid, found {excerpt(item.get('device'))}")
    numbers = {name: integer(item[name], f"{place} {name}") for name in NUMBER_NAMES if item.get(name) is not None}
    return GpuUse(**words, **numbers)  # type: ignore[arg-type]
