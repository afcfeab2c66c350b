"""`kwhere unit ID`: one unit like a good job report."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.table import Column, bar, render
from kwhere.cli.unit_gpus import gpu_header, gpu_lines
from kwhere.cli.units import cpu_seconds, money, write
from kwhere.core.errors import NotFound
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
    share,
    significant,
)

WIDTH = 80
METER = 40


@click.command()
@click.argument("ident", metavar="ID")
@click.option("-M", "--cluster", help="The cluster, where several know this id")
@click.option("-m", "--manager", help="The manager, where several know this id")
@click.option("--run", "run_id", help="One run of it  [the newest]")
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@server_options
def unit(
    ident: str,
    *,
    cluster: str | None,
    manager: str | None,
    run_id: str | None,
    style: str | None,
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
) -> None:
    """Show one unit. ID is the manager's id (4242), or MANAGER/ID, or CLUSTER/MANAGER/ID."""
    api = Api(server, token_file, state_dir)
    parts = ident.split("/", 2)
    if len(parts) == 3:
        cluster, manager, ident = parts
    elif len(parts) == 2:
        manager, ident = parts
    if cluster is None or manager is None:
        cluster, manager, ident = _find(api, ident, cluster, manager)
    path = "/units/" + "/".join(quote(part, safe="") for part in (cluster, manager, ident))
    item = api.get(path, {"run": run_id})
    if style == "json":
        click.echo(json.dumps(item, indent=1))
    elif style == "csv":
        write([item], style)
    else:
        click.echo("\n".join(report(item)))


def report(item: Json) -> list[str]:
    """Return the lines of the report, 80 columns wide."""
    return [
        "=" * WIDTH,
        *_header(item),
        "-" * WIDTH,
        *_meters(item),
        *gpu_lines(item, WIDTH),
        "-" * WIDTH,
        *_energy(item),
        *_notes(item),
        "=" * WIDTH,
    ]


def _find(api: Api, ident: str, cluster: str | None, manager: str | None) -> tuple[str, str, str]:
    params = {"q": ident, "cluster": cluster, "manager": manager}
    found = {
        (item["cluster"], item["manager"], item["unit"])
        for item in api.pages("/units", params, 1000)
        if ident in (item["unit"], item["name"], (item.get("labels") or {}).get("job"))
    }
    if not found:
        raise NotFound(f"unit {ident}: not found; `kwhere units -q {ident}` searches parts of ids and names")
    if len(found) > 1:
        choices = ", ".join("/".join(each) for each in sorted(found))
        raise NotFound(f"unit {ident}: several have this id: {choices}")
    return found.pop()


def _header(item: Json) -> Iterator[str]:
    allocation = item.get("allocation") or {}
    started, ended = _moment(item["started_at"]), _moment(item["ended_at"])
    submitted = _moment(item.get("submitted_at"))
    length = ((ended or datetime.now(started.tzinfo)) - started).total_seconds() if started else None
    rows = {
        "Unit": f"{item['manager']} {item['unit']}",
        "Name": item["name"] or NO_DATA,
        "User/Project": f"{item['user'] or NO_DATA}/{item['project'] or NO_DATA}",
        "State": item["state"] or NO_DATA,
        **({"Queue": item["queue"]} if item.get("queue") else {}),
        "Nodes": ", ".join(item["nodes"]) or NO_DATA,
        "CPUs": NO_DATA if allocation.get("cpus") is None else f"{allocation['cpus']:g}",
        "Memory": quantity(allocation.get("memory_bytes"), BYTES),
        **({"GPUs": gpus} if (gpus := gpu_header(item)) else {}),
        **({"Submitted": submitted.astimezone().isoformat(" ", "seconds")} if submitted else {}),
        "Started": started.astimezone().isoformat(" ", "seconds") if started else NO_DATA,
        "Run time": duration(length) + (" (in progress)" if ended is None else ""),
        "Cluster": item["cluster"],
    }
    for name, text in rows.items():
        yield f"{name:>14}: {text}"


def _meters(item: Json) -> Iterator[str]:
    used = cpu_seconds(item)
    limit = (item.get("allocation") or {}).get("memory_bytes")
    peak = item.get("memory_peak_bytes")
    memory = peak / limit if peak is not None and limit else None
    for name, ratio, text in (
        ("CPU", item.get("cpu_efficiency_ratio"), quantity(used, CPU_TIME)),
        ("Memory peak", memory, quantity(peak, BYTES)),
    ):
        filled = bar(ratio, METER).ljust(METER)
        yield f"{name:>14}: [{filled}] {share(ratio):>7}  {text}"
    yield f"{'Power now':>14}: {quantity(item['power_watts'], POWER)}"


def _energy(item: Json) -> Iterator[str]:
    per_component = item["energy_joules"]
    figures = [per_component.get(c) or {} for c in Component]
    scale = choose_scale([item["energy_joules_total"]], ENERGY)
    total = item["energy_joules_total"] or 0.0
    columns = [
        Column("COMPONENT"),
        Column(f"dynamic {scale.unit}", is_number=True),
        Column(f"idle {scale.unit}", is_number=True),
        Column("share"),
    ]
    rows = []
    for component, parts in zip(Component, figures, strict=True):
        dynamic, idle = parts.get("dynamic"), parts.get("idle")
        both = (dynamic or 0.0) + (idle or 0.0)
        rows.append((component, scale.text(dynamic), scale.text(idle), bar(both / total if total else None, 30)))
    yield from render(columns, rows, WIDTH)
    yield f"{'Energy':>14}: {quantity(item['energy_joules_total'], ENERGY)}, method {item['method'] or NO_DATA}"
    emissions = item.get("emissions") or []
    yield f"{'CO2e':>14}: {quantity(item['emissions_grams'], MASS)}{_factor(emissions)}"
    yield from _beside(item, emissions)


def _beside(item: Json, emissions: Sequence[Json]) -> Iterator[str]:
    """Yield what is never added to operational average grams: marginal ones, cost, embodied carbon, water."""
    for source in emissions:
        if source["basis"] == "marginal":
            where = f"zone {source['zone']}, provider {source['provider']}, marginal, {source['quality']}"
            yield f"{'CO2e marginal':>14}: {quantity(source['grams'], MASS)} ({where})"
    for cost in item.get("costs") or []:
        part = "" if cost["is_whole"] else " (no tariff was in force at times)"
        yield f"{'Cost':>14}: {money(cost['amount'])} {cost['currency']}{part}"
    made = item.get("embodied_grams")
    if made is not None:
        bounds = f"{quantity(made['min'], MASS)} to {quantity(made['max'], MASS)}"
        part = "" if made["is_whole"] else ", of the known types of nodes"
        yield f"{'Embodied CO2e':>14}: {quantity(made['value'], MASS)} ({bounds}{part}; in no sum above)"
    if item.get("water_litres") is not None:
        yield f"{'Water':>14}: {significant(item['water_litres'])} l"


def _factor(emissions: Sequence[Json]) -> str:
    if not emissions:
        return " (no zone set)"
    averages = [source for source in emissions if source["basis"] == "average"]
    first = next((source for source in averages if source.get("reporting")), (averages or emissions)[0])
    return f" (zone {first['zone']}, provider {first['provider']}, {first['basis']}, {first['quality']})"


def _notes(item: Json) -> Iterator[str]:
    explained = {
        "gap": "part of the time was not measured",
        "ended": "its last part is extrapolated from its rate",
        "clock": "the node's clock was stepped meanwhile",
        "overcommitted": "more was allocated than the node has; idle shares are scaled",
        "idle_table": "the idle share rests on a table, not yet on learning",
        "unverified": "its manager did not confirm it on this node",
        "lost": "some of its slots were lost",
        "slices": "GPU energy was shared by slices: nobody tells how busy each instance was",
    }
    for word in item.get("quality") or []:
        yield f"{'Note':>14}: {word}: {explained.get(word, 'see the methodology')}"


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
