"""Recording rules of units, jobs and pods: what each draws and how busy what it holds is, right where GPUs are divided.

A unit's power is what the agents split to it. Where an agent measures no GPU but knows who holds which, a unit has its
share of what another exporter says the GPU draws. Shares of a GPU add up to one at most, so its power is there once.
An agent that two jobs of a Prometheus scrape counts once.
"""

from collections.abc import Iterator

from kwhere.alerts.gpu_exporters import DCGM, EXPORTERS, KWHERE
from kwhere.alerts.gpu_rules import INSTANCE_INFO, Rule
from kwhere.alerts.promql_parts import INSTANCE, RuleOptions, by, either, first_of, own_labels, renamed, times

SHARE = "unit_gpu:share_ratio"
_NOT_A_WORKLOAD = ".*(dcgm|exporter|kwhere).*"
"""Pods that a scrape names where the exporter names none."""
_SHOWS_HOLDERS = "DCGM_FI_DEV_(FB_USED|POWER_USAGE|GPU_TEMP|BOARD_POWER_WATTS)|DCGM_FI_PROF_GR_ENGINE_.*"


def unit_rules(options: RuleOptions) -> Iterator[Rule]:
    """Yield the rules of units; they need those of GPUs."""
    window, cluster = options.window, options.cluster_label
    whole = (cluster, "manager", "unit")
    on_node = [*options.place, "manager", "unit", "run"]

    def rate(metric: str, *labels: str) -> str:
        return by("max", [*on_node, *labels], f"rate({metric}[{window}])")

    power = by("sum", [*on_node, "component"], rate("kwhere_unit_energy_joules_total", "component", "part"))
    yield Rule("unit_node:power_watts", power)
    yield Rule("unit:power_watts", by("sum", whole, "unit_node:power_watts"))
    yield Rule("unit:cpu_cores", by("sum", whole, rate("kwhere_unit_cpu_seconds_total", "mode")))
    yield Rule(SHARE, by("max", [*on_node, "uuid", "mig"], "kwhere_unit_gpu_share_ratio"))
    held = by("sum", on_node, times(SHARE, ["uuid"], "gpu:power_watts"))
    split = by("sum", on_node, 'unit_node:power_watts{component="gpu"}')
    yield Rule("unit_node:gpu_power_watts", first_of([split, held], on_node))
    yield Rule("unit:gpu_power_watts", by("sum", whole, "unit_node:gpu_power_watts"))
    yield Rule("unit:gpus", by("sum", whole, SHARE))
    busy = by("sum", whole, rate("kwhere_unit_gpu_busy_seconds_total", "uuid", "mig"))
    yield Rule("unit:gpu_busy_ratio", f"clamp_max({busy} / (unit:gpus > 0), 1)")
    yield Rule("unit:gpu_utilization_ratio", f"{_used(whole)} / {_known(whole)}")


def _instances() -> str:
    """Return shares of instances with the instance's number."""
    return times(f'{SHARE}{{mig!=""}}', ["uuid", "mig"], INSTANCE_INFO, [INSTANCE])


def _used(labels: tuple[str, ...]) -> str:
    """Return shares times how busy each place is; an instance's own activity, never its GPU's."""
    devices = times(f'{SHARE}{{mig=""}}', ["uuid"], "gpu:utilization_ratio")
    instances = times(_instances(), ["uuid", INSTANCE], "gpu_instance:engine_active_ratio")
    return by("sum", labels, either([devices, instances]))


def _known(labels: tuple[str, ...]) -> str:
    """Return the shares of which it is known how busy they are."""
    devices = f'{SHARE}{{mig=""}} and on (uuid) gpu:utilization_ratio'
    instances = f"{_instances()} and on (uuid, {INSTANCE}) gpu_instance:engine_active_ratio"
    return f"({by('sum', labels, either([devices, instances]))} > 0)"


def holder_rules(options: RuleOptions) -> Iterator[Rule]:
    """Yield rules of jobs and pods as dcgm-exporter names them, for nodes without an agent."""
    kinds = {
        "job": (("hpc_job",), [_shown('hpc_job!=""', options)]),
        "pod": (("namespace", "pod"), [_exported(options), _shown(_OWN_PODS, options)]),
    }
    for kind, (names, parts) in kinds.items():
        place = [*options.place, "uuid", INSTANCE]
        yield Rule(f"gpu_place:{kind}", first_of([by("group", [*place, *names], part) for part in parts]))
        yield Rule(f"{kind}:gpu_power_watts", by("sum", [*options.place, *names], _held_power(f"gpu_place:{kind}")))


_OWN_PODS = f'exported_pod="",pod!="",pod!~"{_NOT_A_WORKLOAD}"'


def _shown(matchers: str, options: RuleOptions) -> str:
    selector = f'{{__name__=~"{_SHOWS_HOLDERS}",{matchers}}}'
    return own_labels(selector, EXPORTERS[DCGM], options.node_label, with_instance=True)


def _exported(options: RuleOptions) -> str:
    """Return pods whose labels a scrape has set aside for its own."""
    inner = renamed(_shown('exported_pod!=""', options), "namespace", "exported_namespace")
    return renamed(inner, "pod", "exported_pod")


def _held_power(holders: str) -> str:
    """Return the power of each place, by its share of the GPU, in equal parts where several hold it."""
    wholes, instances = (_parts_of_power(f'{holders}{{{INSTANCE}{sign}""}}') for sign in ("=", "!="))
    return either([wholes, times(instances, ["uuid", INSTANCE], "gpu_instance:share_ratio")])


def _parts_of_power(holders: str) -> str:
    """Return the whole GPU's power to each holder of a place, in equal parts."""
    place = ["uuid", INSTANCE]
    part = times(holders, place, by("count", place, holders), operator="/")
    return times(part, ["uuid"], "gpu:power_watts")


def node_rules(options: RuleOptions) -> Iterator[Rule]:
    """Yield the rules of nodes."""
    if KWHERE in options.exporters:
        spent = by("max", [*options.place, "component"], f"rate(kwhere_node_energy_joules_total[{options.window}])")
        yield Rule("node:power_watts", by("sum", options.place, spent))
    yield Rule("node:gpu_power_watts", by("sum", options.place, "gpu:power_watts"))
    yield Rule("node:gpus", by("count", options.place, by("group", [*options.place, "uuid"], "gpu:power_watts")))
