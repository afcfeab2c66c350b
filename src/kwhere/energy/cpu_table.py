"""Idle and full-load power of processors by model, generation or number of CPUs, derived from published figures.

The table is text (`meters/data/cpu_power.csv`); its head names every source and the rule by which each row is derived.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kwhere.energy.model import (
    ANY_CPU_IDLE_UW,
    ANY_CPU_MAX_UW,
    ANY_CPU_UNCERTAINTY_RATIO,
    CpuPower,
    Memory,
)

SPEC_MEMORY_IDLE_WATTS_PER_GB = 0.15
SPEC_MEMORY_FULL_WATTS_PER_GB = 0.392
FALLBACK = ("fallback",)
"""Codes of a row whose name says less than any code does."""
_WATT = 1_000_000
_NOISE = re.compile(r"\((?:R|TM)\)|\b(?:CPU|PROCESSOR|VIRTUAL)\b(?=.*\d)|@.*|,", re.IGNORECASE)


class Rule(StrEnum):
    """How a row's power follows from what was published."""

    SPEC = "spec"
    """SPECpower_ssj2008: (server - memory) / chips."""
    TDP = "tdp"
    """Design power x 0.12 and 1.02 (Teads 2021)."""
    TDP_EPYC = "tdp_epyc"
    """Design power x 0.08 and 0.66: what SPECpower shows of EPYC 7002 to 9005."""
    TDP_EPYC_7001 = "tdp_epyc_7001"
    """Design power x 0.23 and 0.70: what SPECpower shows of EPYC 7001."""
    MEAN = "mean"
    """Mean per thread of the generation's `spec` rows."""
    BOARD = "board"
    """Measured at the supply of the whole board."""


_OF_TDP = {Rule.TDP: (0.12, 1.02), Rule.TDP_EPYC: (0.08, 0.66), Rule.TDP_EPYC_7001: (0.23, 0.70)}
_OF_MODELS = (Rule.SPEC, Rule.TDP_EPYC, Rule.TDP_EPYC_7001)
"""Rules whose rows are models, never classes."""


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What is known of a socket. `code` is `vendor/family/model/stepping` or, on Arm, `implementer//part`."""

    name: str = ""
    code: str = ""
    cpus: int = 1
    """Online CPUs of the socket."""
    is_guest: bool = False
    """Whether these are a virtual machine's: then they are so many threads of a chip, not the chip."""


@dataclass(frozen=True, slots=True)
class CpuRow:
    """One row: a model, or a generation for whatever model is not listed."""

    name: str
    generation: str
    pattern: re.Pattern[str]
    codes: tuple[str, ...]
    rule: Rule
    threads: int | None
    """Hardware threads of one chip; None: power is per thread."""
    idle_uw: float
    """Of one chip, else per thread."""
    max_uw: float
    memory: Memory | None
    uncertainty_ratio: float
    source: str

    def power_of(self, facts: CpuFacts) -> CpuPower:
        """Return the power of a socket of this kind."""
        share = self._share(facts)
        return CpuPower(
            idle_uw=round(self.idle_uw * share),
            max_uw=round(self.max_uw * share),
            uncertainty_ratio=self.uncertainty_ratio,
            family=self.name,
            memory=self.memory,
            chip_threads=self.threads,
        )

    def _share(self, facts: CpuFacts) -> float:
        """Return how many chips, or threads, the socket counts for.

        A guest holds so many threads of a chip. So does a machine that hides that it is one: fewer CPUs than the chip
        has cores. A machine of its own pays the whole chip, also with multi-threading off.
        """
        if self.threads is None:
            return facts.cpus
        if self.rule is Rule.BOARD:
            return min(1.0, facts.cpus / self.threads)
        is_chip = not facts.is_guest and self.threads <= 2 * facts.cpus <= 2 * self.threads
        return 1.0 if is_chip else facts.cpus / self.threads


@dataclass(frozen=True, slots=True)
class CpuTable:
    """All rows, models before generations."""

    rows: tuple[CpuRow, ...]

    def find(self, facts: CpuFacts) -> CpuPower:
        """Return the power of a socket: by model, else generation by name, else by code, else by number of CPUs."""
        name = clean_name(facts.name)
        named = [row for row in self.rows if row.pattern.search(name)]
        coded = [row for row in self.rows if any(_code_matches(code, facts.code) for code in row.codes)]
        found = _best([row for row in named if row.codes != FALLBACK], name) or next(iter(coded), None)
        row = found or _best(named, name)
        return any_cpu(facts.cpus) if row is None else row.power_of(facts)


def any_cpu(cpus: int) -> CpuPower:
    """Return the power of a socket of which only the number of CPUs is known: the mean over what clouds run."""
    return CpuPower(ANY_CPU_IDLE_UW * cpus, ANY_CPU_MAX_UW * cpus, ANY_CPU_UNCERTAINTY_RATIO, "any CPU")


def clean_name(name: str) -> str:
    """Return a processor's name in capitals, without marks, clock rate and filler words, blanks single."""
    return " ".join(_NOISE.sub(" ", name).upper().split())


def parse_cpu_table(text: str) -> CpuTable:
    """Return the table in `text`: lines that start with `#`, then CSV. Raises ValueError for what is not so."""
    records = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    overlong = [record["name"] for record in records if None in record]
    if overlong:
        raise ValueError(f"power of processors: {overlong}: more fields than columns")
    try:
        rows = [_row(record) for record in records if record["rule"] != Rule.MEAN]
        means = [_mean(record, rows) for record in records if record["rule"] == Rule.MEAN]
    except (KeyError, TypeError, ZeroDivisionError, re.error) as error:
        raise ValueError(f"power of processors: {error!r}") from error
    return CpuTable((*rows, *means))


def _best(rows: Sequence[CpuRow], name: str) -> CpuRow | None:
    """Return the row whose pattern covers most of the name; a model before a class, then the earlier one."""

    def rank(row: CpuRow) -> tuple[bool, int]:
        match = row.pattern.search(name)
        return row.rule in _OF_MODELS, len(match[0]) if match else 0

    return max(rows, key=rank, default=None)


def _code_matches(wanted: str, code: str) -> bool:
    """Return whether `vendor/family/model/first-last` names `vendor/family/model/stepping`; empty parts match all."""
    wants, have = wanted.split("/"), code.split("/")
    return len(wants) > 1 and len(have) > 1 and all(map(_part_matches, wants, have))


def _part_matches(want: str, have: str) -> bool:
    first, dash, last = want.partition("-")
    if dash:
        return have.isascii() and have.isdigit() and int(first) <= int(have) <= int(last)
    return want in ("", have)


def _row(record: dict[str, str]) -> CpuRow:
    rule = Rule(record["rule"])
    idle_watts, max_watts = _chip_watts(rule, record)
    if not 0 < idle_watts < max_watts:
        raise ValueError(f"{record['name']}: expected 0 < idle < full, found {idle_watts} and {max_watts}")
    return _build(record, rule, int(record["threads"]), idle_watts, max_watts)


def _mean(record: dict[str, str], rows: Sequence[CpuRow]) -> CpuRow:
    peers = [row for row in rows if row.generation == record["generation"] and row.threads is not None]
    idle_uw = sum(row.idle_uw / row.threads for row in peers if row.threads) / len(peers)
    max_uw = sum(row.max_uw / row.threads for row in peers if row.threads) / len(peers)
    return _build(record, Rule.MEAN, None, idle_uw / _WATT, max_uw / _WATT)


def _build(record: dict[str, str], rule: Rule, threads: int | None, idle_watts: float, max_watts: float) -> CpuRow:
    return CpuRow(
        name=record["name"],
        generation=record["generation"],
        pattern=re.compile(rf"(?<![\w-])(?:{record['pattern']})(?![\w+])(?! V\d)"),
        codes=tuple(record["codes"].split()),
        rule=rule,
        threads=threads,
        idle_uw=idle_watts * _WATT,
        max_uw=max_watts * _WATT,
        memory=Memory(record["memory"]) if record["memory"] else None,
        uncertainty_ratio=float(record["uncertainty_percent"]) / 100,
        source=record["source"],
    )


def _chip_watts(rule: Rule, record: dict[str, str]) -> tuple[float, float]:
    """Return idle and full watts of one chip."""
    if rule in _OF_TDP:
        idle_ratio, full_ratio = _OF_TDP[rule]
        tdp_watts = float(record["tdp_watts"])
        return tdp_watts * idle_ratio, tdp_watts * full_ratio
    idle_watts, full_watts = float(record["idle_watts"]), float(record["full_watts"])
    if rule is Rule.BOARD:
        return idle_watts, full_watts
    chips, memory_gb = int(record["chips"]), float(record["memory_gb"])
    return (
        (idle_watts - SPEC_MEMORY_IDLE_WATTS_PER_GB * memory_gb) / chips,
        (full_watts - SPEC_MEMORY_FULL_WATTS_PER_GB * memory_gb) / chips,
    )
