"""One unit like a good job report, 80 columns wide: who, what was given, what was used, what stands out."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from textwrap import wrap

import click

from kwhere.cli.client import Json
from kwhere.cli.streams import wants_colour
from kwhere.cli.table import Column, bar, render
from kwhere.cli.unit_nodes import gpu_header, meter, node_lines
from kwhere.cli.unit_values import cpu_seconds, elapsed_seconds
from kwhere.core.managed import AT_REST
from kwhere.core.terms import Component
from kwhere.reports.figures import (
    BYTES,
    CPU_TIME,
    ENERGY,
    MASS,
    NO_DATA,
    POWER,
    choose_scale,
    duration,
    quantity,
    significant,
)
from kwhere.reports.plain_text import visible
from kwhere.reports.usage_text import money

WIDTH = 80
METER = 40
_LABEL = 14
_NOTES = {
    "gap": "part of the time was not measured",
    "ended": "its last part is extrapolated from its rate",
    "clock": "the node's clock was stepped meanwhile",
    "overcommitted": "more was allocated than the node has; idle shares are scaled",
    "idle_table": "the idle share rests on a table, not yet on learning",
    "unverified": "its manager did not confirm it on this node",
    "unreported": "only its manager told of it, no agent has: nothing of it was measured",
    "lost": "some of its slots were lost",
}


def report(
    item: Json,
    runs: int = 1,
    page: str | None = None,
    added: tuple[str, str] | None = None,
    parts: Sequence[str] = (),
) -> list[str]:
    """Return the lines of the report; `runs` says how many runs its id has, `page` where it is in a browser.

    Of a sum `added` says of what it is, and `parts` are lines that tell what each was.
    """
    return [
        "=" * WIDTH,
        *_header(item, runs),
        *(labelled(*added) if added is not None else ()),
        *([f"{'Page':>{_LABEL}}: {page}"] if page else []),
        "-" * WIDTH,
        *_meters(item),
        *node_lines(item, WIDTH),
        *(("-" * WIDTH, *parts) if parts else ()),
        "-" * WIDTH,
        *_energy(item),
        *_findings(item),
        "=" * WIDTH,
    ]


def labelled(label: str, text: str) -> Iterator[str]:
    """Yield `label: text` in as many lines as it takes."""
    first = f"{label:>{_LABEL}}: "
    yield from wrap(visible(text), WIDTH, initial_indent=first, subsequent_indent=" " * len(first)) or [first.rstrip()]


def _header(item: Json, runs: int) -> Iterator[str]:
    labels = item.get("labels") or {}
    shown = f" ({labels['job']})" if labels.get("job") else ""
    for label, text in {
        "Unit": f"{item['manager']} {item['unit']}{shown}",
        "Name": item["name"] or NO_DATA,
        "User/Project": f"{item['user'] or NO_DATA}/{item['project'] or NO_DATA}",
        "State": item["state"] or NO_DATA,
        **({"Queue": item["queue"]} if item.get("queue") else {}),
        **_given(item),
        **_times(item),
        "Cluster": item["cluster"],
        **({"Runs": f"{runs}: this is the newest, --run names another"} if runs > 1 else {}),
    }.items():
        yield from labelled(label, text)


def _given(item: Json) -> dict[str, str]:
    allocation = item.get("allocation") or {}
    cpus, memory = allocation.get("cpus"), allocation.get("memory_bytes")
    each = f" ({quantity(memory / cpus, BYTES)} per CPU)" if memory and cpus else ""
    nodes = item["nodes"]
    count = f"{len(nodes)}: " if len(nodes) > 1 else ""
    return {
        "Nodes": f"{count}{', '.join(nodes)}" if nodes else NO_DATA,
        "CPUs": NO_DATA if cpus is None else f"{cpus:g}",
        "Memory": f"{quantity(memory, BYTES)}{each}",
        **({"GPUs": gpus} if (gpus := gpu_header(item)) else {}),
    }


def _times(item: Json) -> dict[str, str]:
    ended = item["ended_at"]
    so_far = f"{item['state']} now" if item["state"] in AT_REST else "in progress"
    return {
        **({"Submitted": _local(item["submitted_at"])} if item.get("submitted_at") else {}),
        "Started": _local(item["started_at"]),
        **({"Ended": _local(ended)} if ended else {}),
        "Run time": duration(elapsed_seconds(item)) + ("" if ended else f" ({so_far})"),
    }


def _meters(item: Json) -> Iterator[str]:
    allocation = item.get("allocation") or {}
    used, limit = cpu_seconds(item), allocation.get("memory_bytes")
    peak = item.get("memory_peak_bytes")
    ratio = item.get("memory_efficiency_ratio")
    if ratio is None and peak is not None and limit and len(item["nodes"]) < 2:
        ratio = peak / limit
    all_nodes = ratio * limit if ratio is not None and limit else peak
    yield meter("CPU", item.get("cpu_efficiency_ratio"), quantity(used, CPU_TIME), METER)
    yield meter("Memory peak", ratio, quantity(all_nodes, BYTES), METER)
    yield f"{'Power now':>{_LABEL}}: {quantity(item['power_watts'], POWER)}"


def _energy(item: Json) -> Iterator[str]:
    per_component: Mapping[str, Json] = item["energy_joules"]
    methods = {method["component"]: method for method in item.get("methods") or []}
    total = item["energy_joules_total"]
    scale = choose_scale([total], ENERGY)
    columns = [
        Column("COMPONENT"),
        Column(f"dynamic {scale.unit}", is_number=True),
        Column(f"idle {scale.unit}", is_number=True),
        Column("METHOD", shrinks=True, min_width=8),
        Column("share"),
    ]
    rows = []
    for component in Component:
        parts = per_component.get(component) or {}
        dynamic, idle = parts.get("dynamic"), parts.get("idle")
        both = (dynamic or 0.0) + (idle or 0.0)
        how = methods.get(component)
        method = f"{how['method']} ({how['source']})" if how and parts else ""
        rows.append(
            (component, scale.text(dynamic), scale.text(idle), method, bar(both / total if total else None, 20))
        )
    yield from render(columns, rows, WIDTH)
    yield from labelled("Energy", f"{quantity(total, ENERGY)}, method {item['method'] or NO_DATA}")
    emissions = item.get("emissions") or []
    yield from labelled("CO2e", f"{quantity(item['emissions_grams'], MASS)}{_factor(item, emissions)}")
    yield from _beside(item, emissions)


def _factor(item: Json, emissions: Sequence[Json]) -> str:
    if not emissions:
        return " (no zone set)" if item["energy_joules_total"] is not None else ""
    averages = [source for source in emissions if source["basis"] == "average"]
    first = next((source for source in averages if source.get("reporting")), (averages or emissions)[0])
    grams, energy = item["emissions_grams"], item["energy_joules_total"]
    mean = f" at {significant(grams / energy * 3.6e6)} g/kWh with PUE" if grams and energy else ""
    return f"{mean} ({_source_words(first)})"


def _source_words(source: Json) -> str:
    """Return where a factor is from, each word once: the provider `static` has factors of the quality `static`."""
    words = (f"zone {source['zone']}", source["provider"], source["basis"], source["quality"])
    return ", ".join(dict.fromkeys(words))


def _beside(item: Json, emissions: Sequence[Json]) -> Iterator[str]:
    """Yield what is never added to operational average grams: marginal ones, cost, embodied carbon, water."""
    for source in emissions:
        if source["basis"] == "marginal":
            text = f"{quantity(source['grams'], MASS)} ({_source_words(source)})"
            yield from labelled("CO2e marginal", text)
    for cost in item.get("costs") or []:
        part = "" if cost["is_whole"] else " (no tariff was in force at times)"
        yield from labelled("Cost", f"{money(cost['amount'])} {cost['currency']}{part}")
    made = item.get("embodied_grams")
    if made is not None:
        bounds = f"{quantity(made['min'], MASS)} to {quantity(made['max'], MASS)}"
        part = "" if made["is_whole"] else ", of the known types of nodes"
        yield from labelled("Embodied CO2e", f"{quantity(made['value'], MASS)} ({bounds}{part}; in no sum above)")
    if item.get("water_litres") is not None:
        yield from labelled("Water", f"{significant(item['water_litres'])} l")


def _findings(item: Json) -> Iterator[str]:
    """Yield what stands out with what to do, then what is to be known of the figures."""
    found = item.get("findings") or []
    if found or item.get("quality"):
        yield "-" * WIDTH
    for finding in found:
        since = f" (since {_local(finding['since'])})" if finding.get("since") else ""
        lines = list(labelled("Finding", f"{finding['text']}{since}: {finding['action']}"))
        is_loud = finding["grave"] and wants_colour()
        yield from (click.style(line, fg="red", bold=True) if is_loud else line for line in lines)
    for word in item.get("quality") or []:
        yield from labelled("Note", f"{word}: {_NOTES.get(word, 'see the methodology')}")


def _local(text: str | None) -> str:
    if not text:
        return NO_DATA
    moment = datetime.fromisoformat(text).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname()}"
