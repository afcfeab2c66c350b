"""Why a unit has the energy it has, on recorded hosts and totals made by hand."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.doctor_place import recorded
from tests.journals import T0_NS, figures, key, unit

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, Method, Part
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import CpuReading, TrackedUnit
from kwhere.ledger.rows import Slot
from kwhere.local.doctor import Check, CheckState
from kwhere.local.doctor_unit import Evidence, explain
from kwhere.sampling.totals import Totals, UnitTotals

CPU_DYNAMIC, CPU_IDLE = (Component.CPU, Part.DYNAMIC), (Component.CPU, Part.IDLE)


def alive(
    ident: str = "42",
    manager: str = "slurm",
    energy: Mapping[tuple[Component, Part], int] | None = None,
    allocation: Allocation | None = None,
) -> UnitTotals:
    """Return a live unit that used 8 CPU seconds so far."""
    tracked = TrackedUnit(
        key=UnitKey(manager, ident, f"{ident}@1"),
        cgroup=f"/job_{ident}",
        inode=1,
        outer=None,
        parent_cgroup="/",
        info=UnitInfo(name="cfd"),
        allocation=allocation or Allocation(),
        from_creation=False,
        first_seen_ns=0,
    )
    row = {CPU_DYNAMIC: 20_000_000, CPU_IDLE: 4_000_000} if energy is None else energy
    return UnitTotals(tracked, True, row, cpu=CpuReading(8_000_000_000))


def evidence(*units: UnitTotals, **more: Any) -> Evidence:
    """Return two steps 2 s apart on a node where powercap counts the CPUs and nothing else is measured."""
    totals = Totals(
        created_utc_ns=0,
        units=units,
        node_uj={Component.CPU: 60_000_000},
        methods={Component.CPU: (Method.COUNTER, "powercap")},
    )
    return Evidence(recorded("xeon-2s-dram"), totals, 2.0, **more)


def by_name(checks: list[Check]) -> dict[str, Check]:
    """Return the checks by name."""
    return {check.name: check for check in checks}


@pytest.mark.parametrize("ident", ["42", "slurm/42", "42@1", "cfd", "slurm/cfd"])
def test_a_unit_is_found_by_what_people_call_it(ident: str) -> None:
    checks = by_name(explain(ident, evidence(alive())))

    assert checks["unit"].found == "slurm/42, alive"
    assert checks["energy_cpu"].found == "10.0 W dynamic, 2.00 W idle (counter by powercap)"
    assert checks["energy_dram"].state is CheckState.MISSING


def test_an_idle_unit_is_said_to_be_idle() -> None:
    checks = by_name(explain("42", evidence(alive(energy={CPU_DYNAMIC: 0, CPU_IDLE: 0}))))

    assert checks["unit_cpu_time"].found.startswith("idle")
    assert "no dynamic energy" in checks["unit_cpu_time"].why


def test_a_unit_without_an_allocation_gets_no_idle_cpu_power() -> None:
    without = by_name(explain("42", evidence(alive())))["unit_allocation"]
    given = by_name(explain("42", evidence(alive(allocation=Allocation(1500, 1 << 30)))))["unit_allocation"]

    assert without.state is CheckState.MISSING
    assert given.found == "1.5 CPUs, 1.00 GiB"


def test_several_units_of_one_name_are_all_explained() -> None:
    checks = explain("cfd", evidence(alive("42"), alive("43", "oar")))

    assert [check.found for check in checks if check.name == "unit"] == ["slurm/42, alive", "oar/43, alive"]


def test_a_unit_that_ended_is_found_in_the_journal() -> None:
    slot = Slot(1, T0_NS, T0_NS + 60 * 10**9, 60 * 10**9, (), ())
    entry = unit(key("41"), figures(2_000_000, 1_000_000))

    (check,) = explain("41", evidence(alive(), last_booked=lambda manager, ident: (slot, entry)))

    assert check.found == "slurm/41, ended"
    assert "2025-11-24 16:01:00+00:00 and holds 3.00 J" in check.why


def test_names_alike_are_offered() -> None:
    (check,) = explain("cf", evidence(alive()))

    assert check.state is CheckState.FAILED
    assert check.why == "Alive and alike: slurm/42."


def test_a_folded_service_is_explained_by_its_cgroup() -> None:
    checks = by_name(explain("cron", evidence(alive())))

    assert checks["unit"].state is CheckState.MISSING
    assert checks["unit_cgroup"].found == "/system.slice/cron.service"
    assert "units.managers" in checks["unit_cgroup"].why


def test_a_daemon_is_system() -> None:
    checks = by_name(explain("slurmd.service", evidence(alive())))

    assert "its work is `system`" in checks["unit_cgroup"].why


def test_what_the_running_agent_has_booked() -> None:
    runs = [{"energy_uj": {"cpu": {"dynamic": 5_000_000, "idle": 1_000_000}}}, {"energy_uj": {}}]

    def nobody(_: dict[str, Any]) -> dict[str, Any]:
        raise Unavailable("refused", "nobody")

    booked = by_name(explain("42", evidence(alive(), ask_agent=lambda _: {"runs": runs})))["unit_account"]
    unknown = by_name(explain("42", evidence(alive(), ask_agent=lambda _: {"runs": []})))["unit_account"]
    none_runs = by_name(explain("42", evidence(alive(), ask_agent=nobody)))["unit_account"]

    assert booked.found == "6.00 J booked by the agent since it runs"
    assert unknown.state is CheckState.WARNING
    assert none_runs.state is CheckState.MISSING
