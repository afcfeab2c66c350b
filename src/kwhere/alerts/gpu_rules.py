"""Recording rules of GPUs: one series per GPU and quantity, whichever exporter shows it, and per instance of a GPU.

`source:gpu_…` holds what each exporter says, in base units and with our labels; `gpu:…` what the best of them says. A
GPU that two exporters show is there once. A GPU that is divided has its power once too, and its activity made of its
instances' by their shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kwhere.alerts.gpu_exporters import (
    AMD,
    DCGM,
    EXPORTERS,
    GIVEN,
    KWHERE,
    NAMES,
    QUANTITIES,
    Exporter,
    Fold,
    Named,
    Quantity,
    Scope,
)
from kwhere.alerts.promql_parts import (
    INSTANCE,
    PROFILE,
    RuleOptions,
    alike,
    by,
    either,
    first_of,
    marked,
    own_labels,
    scaled,
    times,
    value_of,
    whole_only,
)

INSTANCE_INFO = "kwhere_gpu_instance_info"
SLICES = (1, 2, 3, 4, 7)
"""Compute slices that an instance may have."""
_OF_FOUR = ".*(A30|RTX PRO)([^0-9].*)?"
"""Models that are divided into four slices; all others into seven."""
_ANY_PROFILE = "([0-9]+c\\\\.)?[0-9]+g\\\\..*"
_SHOWS_INSTANCES = "DCGM_FI_DEV_(FB_USED|POWER_USAGE|GPU_TEMP|BOARD_POWER_WATTS)|DCGM_FI_PROF_GR_ENGINE_.*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A recording rule; `labels` are added to its series."""

    record: str
    expression: str
    labels: tuple[tuple[str, str], ...] = ()


def gpu_rules(options: RuleOptions) -> Iterator[Rule]:
    """Yield the rules of all GPUs, what others are made of first."""
    yield from _share_rules(options)
    for quantity in QUANTITIES:
        yield from _device_sources(quantity, options)
        if quantity.scope is Scope.PLACE and exporters_of_instances(options):
            yield from _instance_sources(quantity, options)
            yield _best_instance(quantity.name, options)
        expression = _device(quantity, options)
        if expression:
            yield Rule(f"gpu:{quantity.name}", expression)
    parts = [marked(f"gpu:{field}_ratio", "field", field) for field in ("engine_active", "kernel_active")]
    yield Rule("gpu:utilization_ratio", first_of(parts, ["uuid"]))


def metrics_of(quantity: Quantity, exporter: Exporter, options: RuleOptions) -> Sequence[Named]:
    """Return what an exporter calls a quantity, the best name first."""
    if exporter.name == GIVEN:
        return [named for name, named in options.given if name == quantity.name]
    return NAMES[quantity.name].get(exporter.name, ()) if exporter.name in options.exporters else ()


def exporters_of_instances(options: RuleOptions) -> list[str]:
    """Return the exporters that show instances, by preference."""
    return [name for name in (KWHERE, DCGM) if name in options.exporters]


def _device_sources(quantity: Quantity, options: RuleOptions) -> Iterator[Rule]:
    labels = [*options.place, "uuid"]
    for exporter in EXPORTERS.values():
        only = whole_only(exporter) if quantity.scope is not Scope.DEVICE or exporter.name == KWHERE else ""
        parts = [
            scaled(by("max", labels, own_labels(inner, exporter, options.node_label)), names[0])
            for names in alike(metrics_of(quantity, exporter, options))
            for inner in [value_of(names, exporter, options.window, only)]
        ]
        if parts:
            found = _bounded(quantity, first_of(parts))
            if (
                exporter.name == AMD and KWHERE in options.exporters
            ):  # its uuids are not the driver's, which kwhere shows
                seen = by("max", [options.node_label], 'kwhere_gpu_info{vendor="amd"}')
                found = f"({found}) unless on ({options.node_label}) {seen}"
            yield Rule(f"source:gpu_{quantity.name}", found, (("source", exporter.name),))


def _instance_sources(quantity: Quantity, options: RuleOptions) -> Iterator[Rule]:
    labels = [*options.place, "uuid", INSTANCE, PROFILE]
    function = "max" if quantity.fold is Fold.SUM else "avg"
    for name in exporters_of_instances(options):
        exporter = EXPORTERS[name]
        parts = [
            scaled(by(function, labels, _of_instances(names, exporter, options)), names[0])
            for names in alike(metrics_of(quantity, exporter, options))
        ]
        yield Rule(
            f"source:gpu_instance_{quantity.name}", _bounded(quantity, first_of(parts)), (("source", exporter.name),)
        )


def _of_instances(names: Sequence[Named], exporter: Exporter, options: RuleOptions) -> str:
    if exporter.name == KWHERE:
        inner = value_of(names, exporter, options.window, 'mig!=""')
        return times(inner, ["uuid", "mig"], INSTANCE_INFO, [INSTANCE, PROFILE])
    inner = value_of(names, exporter, options.window, f'{exporter.instance}!=""')
    return own_labels(inner, exporter, options.node_label, with_instance=True)


def _device(quantity: Quantity, options: RuleOptions) -> str:
    """Return a GPU's value: the best exporter's of the whole, else what its instances make."""
    best = _best_device(quantity, options)
    if quantity.fold is None:
        return best
    if not exporters_of_instances(options):
        return best
    inner = f"gpu_instance:{quantity.name}"
    if quantity.fold is Fold.SHARE:
        inner = times(inner, ["uuid", INSTANCE], "gpu_instance:share_ratio")
    folded = by("sum", [*options.place, "uuid", "source"], inner)
    return first_of([*([best] if best else []), _bounded(quantity, folded)], ["uuid"])


def _best_device(quantity: Quantity, options: RuleOptions) -> str:
    """Return what the best exporter of each GPU says; empty where none of them knows the quantity."""
    names = [name for name, exporter in EXPORTERS.items() if metrics_of(quantity, exporter, options)]
    return first_of([f'source:gpu_{quantity.name}{{source="{name}"}}' for name in names], ["uuid"])


def _best_instance(name: str, options: RuleOptions) -> Rule:
    parts = [f'source:gpu_instance_{name}{{source="{each}"}}' for each in exporters_of_instances(options)]
    return Rule(f"gpu_instance:{name}", first_of(parts, ["uuid", INSTANCE]))


def _bounded(quantity: Quantity, expression: str) -> str:
    return expression if quantity.largest is None else f"clamp_max({expression}, {quantity.largest:g})"


# -- how large an instance is


def _share_rules(options: RuleOptions) -> Iterator[Rule]:
    labels = [*options.place, "uuid", INSTANCE, PROFILE]
    ways = {KWHERE: _own_shares(labels), DCGM: _dcgm_shares(labels, options)}
    for name in exporters_of_instances(options):
        yield Rule("source:gpu_instance_share_ratio", ways[name], (("source", name),))
    if exporters_of_instances(options):
        yield _best_instance("share_ratio", options)


def _own_shares(labels: Sequence[str]) -> str:
    """Return MIG instances by their slices, partitions of other makers by how many there are."""
    sizes = {count: f'{INSTANCE_INFO}{{profile=~"{_profile(count)}"}}' for count in SLICES}
    slices = either([f"{by('group', labels, infos)} * {count}" for count, infos in sizes.items()])
    capacity = f'kwhere_gpu_info{{model=~"{_OF_FOUR}"}} * 4 or kwhere_gpu_info{{model!~"{_OF_FOUR}"}} * 7'
    equal = f'{INSTANCE_INFO}{{profile!~"{_ANY_PROFILE}"}}'
    count = by("count", ["uuid"], by("group", ["uuid", INSTANCE], equal))
    return either(
        [times(slices, ["uuid"], capacity, operator="/"), times(by("group", labels, equal), ["uuid"], count, (), "/")]
    )


def _dcgm_shares(labels: Sequence[str], options: RuleOptions) -> str:
    exporter = EXPORTERS[DCGM]
    parts = []
    for matches, capacity in (("!~", 7), ("=~", 4)):
        for count in SLICES:
            picked = f'__name__=~"{_SHOWS_INSTANCES}",GPU_I_PROFILE=~"{_profile(count)}",modelName{matches}"{_OF_FOUR}"'
            inner = own_labels(f"{{{picked}}}", exporter, options.node_label, with_instance=True)
            parts.append(f"{by('group', labels, inner)} * {count} / {capacity}")
    return either(parts)


def _profile(slices: int) -> str:
    """Return what profiles of so many slices match: `3g.20gb`, `1c.3g.20gb`, `1g.5gb+me`."""
    return f"([0-9]+c\\\\.)?{slices}g\\\\..*"
