"""A pass over 100,000 SLURM jobs of two weeks: seconds, memory and CPU, on SQLite and on PostgreSQL.

`sacct` and its sisters are stand-ins that tell what was written before; a job that lives in several windows is told in
each. `first` is the first pass, whose jobs agents have all reported (each is claimed), `again` the same once more,
`unreported` a first pass whose jobs no agent knows. The stand-ins' own time is in the seconds, not in the memory.
"""

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench.units_list import fill
from sqlalchemy import Engine, delete, select, text, update
from tests import postgresql

from kwhere.core.clock import SystemClock
from kwhere.database import schema
from kwhere.database.engine import open_engine, writing
from kwhere.database.maintenance import upgrade
from kwhere.database.manager_states import manager_state
from kwhere.database.settings import DatabaseSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_sacct import NEEDED, WANTED
from kwhere.server.manager_pass import ManagerPass

DAYS = 13.5
WINDOW_SECONDS = 6 * 3600
SACCT = """\
#!/bin/sh
here=$(dirname "$0")
[ "$1" = --helpformat ] && exec cat "$here/fields"
for word; do
  case $word in
    --delimiter=*) delimiter=${word#*=};;
    --starttime=*) start=${word#*=};;
    --endtime=*) end=${word#*=};;
  esac
done
first=$(( ($(date -u -d "$start" +%s) - $(cat "$here/epoch")) / {window} ))
last=$(( ($(date -u -d "$end" +%s) - $(cat "$here/epoch")) / {window} ))
[ "$first" -lt 0 ] && first=0
# Windows of the pass and of the files begin at other moments: a job that is told twice stands the second time.
for number in $(seq "$first" "$last"); do cat "$here/window.$number" 2>/dev/null; done | sed "s/~/$delimiter/g"
"""
COLUMNS = (*NEEDED, *(name for name in WANTED if name != "SLUID"), NEEDED[0])


class Always:
    """Leave to go on."""

    def goes_on(self) -> bool:
        """Say yes."""
        return True


def write_programs(engine: Engine, place: Path) -> int:
    """Write the stand-ins and what they tell; return how many records that is."""
    units, users, projects = schema.units.c, schema.users.c, schema.projects.c
    epoch = int(time.time() - (DAYS + 1) * 86_400)
    windows: dict[int, list[str]] = {}
    query = (
        select(units.unit, units.name, units.started_ns, units.ended_ns, users.name, projects.name, schema.nodes.c.name)
        .select_from(schema.units)
        .join(schema.users, users.id == units.user_id)
        .join(schema.projects, projects.id == units.project_id)
        .join(schema.nodes, schema.nodes.c.id == units.scope_node_id)
    )
    now_s = int(time.time())
    with engine.connect() as connection:
        for unit, name, started_ns, ended_ns, user, project, node in connection.execute(query):
            start, end = started_ns // 10**9, None if ended_ns is None else ended_ns // 10**9
            line = record(unit, name, start, end, user, project, node)
            for number in range((start - epoch) // WINDOW_SECONDS, ((end or now_s) - epoch) // WINDOW_SECONDS + 1):
                windows.setdefault(number, []).append(line)
    (place / "epoch").write_text(str(epoch))
    (place / "fields").write_text(" ".join(COLUMNS))
    for number, lines in windows.items():
        (place / f"window.{number}").write_text("".join(lines))
    for program, script in (("sacct", SACCT.replace("{window}", str(WINDOW_SECONDS))), *SISTERS.items()):
        (place / program).write_text(script)
        (place / program).chmod(0o755)
    return sum(map(len, windows.values()))


SISTERS = {
    "squeue": "#!/bin/sh\n",
    "sacctmgr": '#!/bin/sh\ncase "$*" in *assoc*) echo "root||";; *) echo "root|root";; esac\n',
    "scontrol": (
        '#!/bin/sh\ncase "$*" in *config*) echo "ClusterName = c1";; *) '
        'seq -f "NodeName=n%g State=IDLE CPUTot=64" 1000;; esac\n'
    ),
}


def record(unit: str, name: str, start: int, end: int | None, user: str, project: str, node: str) -> str:
    """Return what sacct tells of a job, in the order of `COLUMNS`, `~` between them."""
    told = {
        "JobIDRaw": unit,
        "JobID": unit,
        "Start": str(start),
        "End": "Unknown" if end is None else str(end),
        "State": "RUNNING" if end is None else "COMPLETED",
        "Submit": str(start - 60),
        "User": user,
        "UID": "1000",
        "Group": "users",
        "Account": project,
        "Partition": "main",
        "NodeList": node,
        "AllocTRES": "billing=16,cpu=16,gres/gpu:a100=1,gres/gpu=1,mem=64G,node=1",
        "AllocCPUS": "16",
        "AllocNodes": "1",
        "ElapsedRaw": str((end or start) - start),
        "ReqMem": "64G",
        "QOS": "normal",
        "ExitCode": "0:0",
        "JobName": name,
    }
    return "~".join(told.get(column, "") for column in COLUMNS) + "\n"


def forget_agents(engine: Engine) -> None:
    """Take back all that agents told."""
    with writing(engine).begin() as connection:
        for table in (schema.run_totals, schema.unit_runs, schema.unit_totals, schema.units, schema.manager_states):
            connection.execute(delete(table))


def measure(url: str, place: str, answer: Connection) -> None:
    """Run a pass in a process of its own; answer seconds, CPU seconds and the peak of its memory."""
    engine = open_engine(DatabaseSettings(url=url))
    settings = SlurmSettings(manager="slurm", cluster="c1", programs_dir=Path(place), backfill_days=DAYS)
    server_pass = ManagerPass(engine, BuiltManager("slurm", settings, Slurm(settings)), SystemClock())
    wall, cpu = time.perf_counter(), time.process_time()
    began_ns, looks = time.time_ns(), 0
    while (manager_state(engine, "c1", "slurm").good_until_ns or 0) < began_ns - 10**6:
        server_pass.run(Always())
        looks += 1
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with engine.connect() as connection:
        states = connection.execute(
            text("SELECT count(*), sum(CASE WHEN is_reported THEN 1 ELSE 0 END) FROM units")
        ).one()
    answer.send((looks, wall, cpu, peak_mb, int(states[0]), int(states[1] or 0)))


def run(url: str, place: Path) -> dict[str, object]:
    """Return what a pass costs."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=measure, args=(url, str(place), theirs))
    process.start()
    looks, wall, cpu, peak_mb, units, reported = ours.recv()
    process.join()
    return {
        "looks": looks,
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_rss_mb": round(peak_mb),
        "units": units,
        "reported": reported,
    }


def bench(dialect: str, url: str, jobs: int) -> None:
    """Print one line per kind of pass."""
    engine = open_engine(DatabaseSettings(url=url))
    upgrade(engine)
    fill(engine, jobs, int(DAYS * 86_400 * 10**9))
    if dialect == "postgresql":
        _count_on(engine)
    with tempfile.TemporaryDirectory() as place:
        records = write_programs(engine, Path(place))
        load = round(os.getloadavg()[0], 1)
        head = {"figure": "manager_pass", "database": dialect, "jobs": jobs, "records": records, "load": load}
        for kind in ("first", "again", "unreported"):
            if kind == "again":
                _rewind(engine)
            if kind == "unreported":
                forget_agents(engine)
            print(json.dumps({**head, "pass": kind, **run(url, Path(place))}), flush=True)
    engine.dispose()


def _count_on(engine: Engine) -> None:
    """Let ids go on behind those that were filled in by hand."""
    with writing(engine).begin() as connection:
        for name in ("clusters", "nodes", "users", "projects", "units", "unit_runs"):
            largest = f"(SELECT max(id) FROM {name})"
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {largest})"))


def _rewind(engine: Engine) -> None:
    with writing(engine).begin() as connection:
        connection.execute(update(schema.manager_states).values(good_until_ns=None, facts_ns=None))


def main() -> None:
    """Measure on both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"))
    chosen = parser.parse_args()
    if chosen.database != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            bench("sqlite", f"sqlite:///{folder}/account.db", chosen.jobs)
    if chosen.database != "sqlite":
        bench("postgresql", postgresql.new_database(), chosen.jobs)


if __name__ == "__main__":
    main()
