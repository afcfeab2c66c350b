"""The table of processors' power that is shipped with the package."""

from functools import cache
from importlib.resources import files

from kwhere.energy.cpu_table import CpuTable, parse_cpu_table

_FILE = "cpu_power.csv"


@cache
def shipped_cpus() -> CpuTable:
    """Return the table of the package: about 220 rows, read once."""
    return parse_cpu_table((files("kwhere.meters") / "data" / _FILE).read_text(encoding="utf-8"))
