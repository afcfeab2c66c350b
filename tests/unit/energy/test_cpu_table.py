"""Power of processors: every name that kernels and hypervisors give, and where each figure is from."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.cpu_table import CpuFacts, CpuRow, Rule, clean_name, parse_cpu_table
from kwhere.energy.model import Memory
from kwhere.meters.cpu_table import shipped_cpus

METHODOLOGY = Path(__file__).parents[3] / "docs" / "methodology.md"
TABLE = shipped_cpus()
ROWS = {row.name: row for row in TABLE.rows}
HEAD = (
    "name,generation,pattern,codes,rule,threads,tdp_watts,idle_watts,full_watts,chips,memory_gb,"
    "memory,uncertainty_percent,source\n"
)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("AMD EPYC 7551 32-Core Processor", "EPYC 7551"),
        ("AMD EPYC 7601 32-Core Processor", "EPYC 7601"),
        ("AMD EPYC 7371 16-Core Processor", "EPYC 7001"),
        ("AMD EPYC 7742 64-Core Processor", "EPYC 7742"),
        ("AMD EPYC 7402P 24-Core Processor", "EPYC 7402"),
        ("AMD EPYC 7B12", "EPYC 7002"),
        ("AMD EPYC 7R32", "EPYC 7002"),
        ("AMD EPYC-Rome Processor", "EPYC 7002"),
        ("AMD EPYC 7763 64-Core Processor", "EPYC 7763"),
        ("AMD EPYC 75F3 32-Core Processor", "EPYC 75F3 and 7573X"),
        ("AMD EPYC 7R13 Processor", "EPYC 7003"),
        ("AMD EPYC 7V73X 64-Core Processor", "EPYC 7003"),
        ("AMD EPYC-Milan Processor", "EPYC 7003"),
        ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
        ("AMD EPYC 9R14", "EPYC 9004"),
        ("AMD EPYC 9V74 80-Core Processor", "EPYC 9004"),
        ("AMD EPYC-Genoa Processor", "EPYC 9004"),
        ("AMD EPYC 8534P 64-Core Processor", "EPYC 8534P"),
        ("AMD EPYC 9965 192-Core Processor", "EPYC 9965"),
        ("AMD EPYC 9B45", "EPYC 9005"),
        ("AMD EPYC 4484PX 12-Core Processor", "EPYC 4004 and 4005"),
        ("AMD EPYC", "EPYC of no known generation"),
        ("AMD EPYC Processor (with IBPB)", "EPYC of no known generation"),
        ("AMD Opteron(tm) Processor 6276", "Opteron 6276"),
        ("AMD Opteron 63xx class CPU", "Opteron"),
        ("Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz", "Xeon X5670"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "Xeon E5-2670"),
        ("Intel(R) Xeon(R) CPU E5-4620 0 @ 2.20GHz", "Sandy Bridge"),
        ("Intel Xeon E312xx (Sandy Bridge)", "Sandy Bridge"),
        ("Intel(R) Xeon(R) CPU E5-2650 v2 @ 2.60GHz", "Xeon E5-2650 v2"),
        ("Intel(R) Xeon(R) CPU E5-2665 v2 @ 2.60GHz", "Ivy Bridge"),
        ("Intel(R) Xeon(R) CPU E7-8890 v3 @ 2.50GHz", "Haswell"),
        ("Intel Core Processor (Haswell, no TSX)", "Core"),
        ("Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz", "Xeon E5-2690 v3"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "Broadwell"),
        ("Intel(R) Xeon(R) CPU E5-2699 v4 @ 2.20GHz", "Xeon E5-2699 v4"),
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Xeon Gold 6130"),
        ("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", "Skylake"),
        ("Intel Xeon Processor (Skylake, IBRS)", "Skylake"),
        ("Intel(R) Xeon(R) W-2195 CPU @ 2.30GHz", "Skylake"),
        ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "Cascade Lake"),
        ("Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", "Xeon Gold 6226R"),
        ("Intel(R) Xeon(R) Platinum 8280L CPU @ 2.70GHz", "Xeon Platinum 8280"),
        ("Intel Xeon Processor (Cascadelake)", "Cascade Lake"),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "Ice Lake"),
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "Xeon Platinum 8380"),
        ("Intel(R) Xeon(R) Platinum 8480+", "Xeon Platinum 8480+"),
        ("Intel(R) Xeon(R) Platinum 8488C", "Sapphire Rapids"),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "Sapphire Rapids"),
        ("Intel(R) Xeon(R) w9-3495X", "Sapphire Rapids"),
        ("Intel(R) Xeon(R) Max 9480", "Xeon Max 9480"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "Xeon Platinum 8592+"),
        ("INTEL(R) XEON(R) PLATINUM 8573C", "Emerald Rapids"),
        ("Intel(R) Xeon(R) 6787P", "Xeon 6787P"),
        ("Intel(R) Xeon(R) 6975P-C", "Granite Rapids"),
        ("Intel(R) Xeon(R) 6766E", "Sierra Forest"),
        ("Intel(R) Xeon(R) CPU D-1541 @ 2.10GHz", "Xeon D 1500"),
        ("Intel(R) Xeon(R) D-2183IT CPU @ 2.20GHz", "Xeon D 2100"),
        ("Intel(R) Xeon(R) D-2775TE CPU @ 2.00GHz", "Xeon D-2775TE"),
        ("Intel(R) Xeon(R) D-1746TER CPU @ 2.00GHz", "Xeon D"),
        ("Intel(R) Xeon(R) CPU E3-1240 v5 @ 3.50GHz", "Xeon E3 v3 to v6"),
        ("Intel(R) Xeon(R) E-2288G CPU @ 3.70GHz", "Xeon E"),
        ("Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz", "Xeon Phi"),
        ("Intel(R) Atom(TM) CPU C3758 @ 2.20GHz", "Atom server"),
        ("Intel(R) Celeron(R) J4125 CPU @ 2.00GHz", "Atom and Celeron and Pentium"),
        ("Intel(R) Pentium(R) Gold G6400 CPU @ 4.00GHz", "Celeron and Pentium desktop"),
        ("Intel(R) Celeron(R) G5905T CPU @ 3.30GHz", "Celeron and Pentium desktop"),
        ("Intel(R) N100", "Intel N100 class"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Core mobile 15 W"),
        ("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", "Core mobile 15 W"),
        ("12th Gen Intel(R) Core(TM) i7-1260P", "Core mobile 28 W"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "Core mobile 45 W"),
        ("Intel(R) Core(TM) Ultra 7 155H", "Core mobile 28 W"),
        ("Intel(R) Core(TM) Ultra 7 258V", "Core Ultra 17 W"),
        ("13th Gen Intel(R) Core(TM) i9-13950HX", "Core mobile 55 W"),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Core desktop 125 W"),
        ("Intel(R) Core(TM) i5-9500 CPU @ 3.00GHz", "Core"),
        ("Intel(R) Core(TM) i5-8500T CPU @ 2.10GHz", "Core desktop 35 W"),
        ("Intel(R) Core(TM)2 Duo CPU     E8400  @ 3.00GHz", "Core"),
        ("AMD Ryzen 7 PRO 5850U with Radeon Graphics", "Ryzen mobile 15 W"),
        ("AMD Ryzen 9 5900HX with Radeon Graphics", "Ryzen mobile 45 W"),
        ("AMD Ryzen 9 5900HS with Radeon Graphics", "Ryzen mobile 35 W"),
        ("AMD Ryzen 7 PRO 7840HS w/ Radeon 780M Graphics", "Ryzen mobile 35 W"),
        ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "Ryzen mobile 28 W"),
        ("AMD Ryzen 7 PRO 250 w/ Radeon 780M Graphics", "Ryzen mobile 28 W"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "Ryzen AI Max"),
        ("AMD Ryzen AI Max PRO 385 w/ Radeon 8050S", "Ryzen AI Max"),
        ("AMD Ryzen 7 2700 Eight-Core Processor", "Ryzen"),
        ("AMD Ryzen 9 7950X3D 16-Core Processor", "Ryzen desktop 105 W"),
        ("AMD Ryzen 5 5600G with Radeon Graphics", "Ryzen"),
        ("AMD Ryzen Threadripper PRO 5995WX 64-Cores", "Ryzen Threadripper"),
        ("Neoverse-N1", "Neoverse N1"),
        ("Ampere(R) Altra(R) Q80-30", "Altra Q80-30"),
        ("ARMv7 Processor rev 3 (v7l) Raspberry Pi 4 Model B Rev 1.4", "Raspberry Pi 4"),
        ("Raspberry Pi 5 Model B Rev 1.0", "Raspberry Pi 5"),
        ("Raspberry Pi Zero W Rev 1.1", "Raspberry Pi other"),
        ("POWER9, altivec supported", "POWER9"),
        ("Hygon C86 7185 32-core Processor", "EPYC 7001"),
        ("", "any CPU"),
        ("Common KVM processor", "any CPU"),
        ("QEMU Virtual CPU version 2.5+", "any CPU"),
        ("Intel(R) Xeon(R) Processor @ 2.20GHz", "any CPU"),
    ],
)
def test_a_processor_is_known_by_its_name(name: str, row: str) -> None:
    assert TABLE.find(CpuFacts(name, cpus=2)).family == row


@pytest.mark.parametrize(
    ("name", "code", "row"),
    [
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "GenuineIntel/6/79/0", "Broadwell"),
        ("Intel(R) Xeon(R) CPU @ 2.00GHz", "GenuineIntel/6/85/3", "Skylake"),
        ("Intel(R) Xeon(R) CPU @ 2.80GHz", "GenuineIntel/6/85/7", "Cascade Lake"),
        ("Intel(R) Xeon(R) CPU @ 2.60GHz", "GenuineIntel/6/106/6", "Ice Lake"),
        ("Intel(R) Xeon(R) Processor @ 2.70GHz", "GenuineIntel/6/143/8", "Sapphire Rapids"),
        ("AMD EPYC", "AuthenticAMD/25/1/1", "EPYC 7003"),
        ("AMD EPYC Processor", "AuthenticAMD/23/49/0", "EPYC 7002"),
        ("", "0x41//0xd0c", "Neoverse N1"),
        ("", "0x41//0xd40", "Neoverse V1 (as N1)"),
        ("", "0x61//0x000", "Apple"),
        ("", "0xc0//0xac3", "AmpereOne (as N1)"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "GenuineIntel/6/85/", "any CPU"),
        ("", "GenuineIntel", "any CPU"),
        ("", "fallback", "any CPU"),
    ],
)
def test_a_name_that_says_nothing_is_known_by_its_code(name: str, code: str, row: str) -> None:
    assert TABLE.find(CpuFacts(name, code, cpus=2)).family == row


def test_the_power_of_a_measured_server_is_a_chip_s() -> None:
    """SR645 with two 7763 and 256 GB: (102 - 38.4) / 2 and (461 - 100.352) / 2."""
    power = TABLE.find(CpuFacts("AMD EPYC 7763 64-Core Processor", cpus=128))

    assert (power.idle_uw, power.max_uw) == (31_800_000, 180_324_000)
    assert power.uncertainty_ratio == 0.4
    assert power.memory is Memory.DDR4


def test_the_power_by_design_power() -> None:
    power = TABLE.find(CpuFacts("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", cpus=32))

    assert (power.idle_uw, power.max_uw) == (15_000_000, 127_500_000)


@pytest.mark.parametrize(
    ("cpus", "is_guest", "share"),
    [
        pytest.param(2, True, 2 / 128, id="guest"),
        pytest.param(2, False, 2 / 128, id="guest that hides it"),
        pytest.param(128, False, 1.0, id="metal"),
        pytest.param(64, False, 1.0, id="metal without multi-threading"),
        pytest.param(64, True, 0.5, id="half a chip"),
        pytest.param(256, True, 2.0, id="guest over two chips"),
        pytest.param(256, False, 2.0, id="two sockets that nobody tells apart"),
    ],
)
def test_a_guest_never_pays_a_whole_chip(cpus: int, is_guest: bool, share: float) -> None:
    power = TABLE.find(CpuFacts("AMD EPYC 7763 64-Core Processor", cpus=cpus, is_guest=is_guest))

    assert power.idle_uw == round(31_800_000 * share)
    assert power.max_uw == round(180_324_000 * share)


def test_a_guest_of_a_board_has_its_share_of_it() -> None:
    assert TABLE.find(CpuFacts("", "0x61//0x000", cpus=2)).idle_uw == 1_700_000
    assert TABLE.find(CpuFacts("", "0x61//0x000", cpus=12)).idle_uw == 6_800_000


def test_a_generation_is_the_mean_of_its_measured_models() -> None:
    """Rome has one: (84 - 38.4) / 2 W over 128 threads."""
    assert TABLE.find(CpuFacts("AMD EPYC 7B12", cpus=4)).idle_uw == round(22_800_000 / 128 * 4)


@pytest.mark.parametrize(
    ("generations", "ratios"),
    [
        pytest.param(("EPYC 7001",), (0.23, 0.70), id="first"),
        pytest.param(("EPYC 7002", "EPYC 7003", "EPYC 9004", "EPYC 9005"), (0.08, 0.66), id="later"),
    ],
)
def test_the_rules_for_epyc_are_what_the_measured_models_show(
    generations: tuple[str, ...], ratios: tuple[float, float]
) -> None:
    lines = (line for line in _text().splitlines() if not line.startswith("#"))
    tdp_watts = {line.split(",")[0]: line.split(",")[6] for line in lines}
    rows = [row for row in TABLE.rows if row.rule is Rule.SPEC and row.generation in generations]

    idle = sum(row.idle_uw / 1e6 / float(tdp_watts[row.name]) for row in rows) / len(rows)
    full = sum(row.max_uw / 1e6 / float(tdp_watts[row.name]) for row in rows) / len(rows)

    assert (round(idle, 2), round(full, 2)) == ratios


def test_a_first_epyc_without_a_result_is_as_hungry_as_its_kin() -> None:
    power = TABLE.find(CpuFacts("AMD EPYC 7551 32-Core Processor", cpus=64))

    assert (power.idle_uw, power.max_uw) == (41_400_000, 126_000_000)


def test_the_documentation_counts_the_rows_and_those_that_nobody_looked_up() -> None:
    own = [row for row in TABLE.rows if row.rule is not Rule.MEAN]
    unseen = [row for row in own if "not looked up" in row.source]
    sentence = f"Of {len(TABLE.rows)} rows {len(own)} have figures of their own; {len(own) - len(unseen)} of these"

    assert sentence in METHODOLOGY.read_text()
    assert all(row.name in METHODOLOGY.read_text() and row.uncertainty_ratio >= 0.5 for row in unseen)


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: str(row.name))
def test_every_row_is_a_sensible_power(row: CpuRow) -> None:
    threads = row.threads or 1

    assert 0 < row.idle_uw < row.max_uw
    assert row.max_uw / threads < 33e6  # watts per thread: the hottest desktop has 8 W, a class of few threads more
    assert 0.2 < row.uncertainty_ratio < 1
    assert row.source or row.rule is Rule.MEAN


def test_names_are_told_once() -> None:
    assert len(ROWS) == len(TABLE.rows)


@given(st.text(max_size=80), st.text(max_size=40), st.integers(1, 4096), st.booleans())
def test_any_name_has_a_power(name: str, code: str, cpus: int, is_guest: bool) -> None:
    power = TABLE.find(CpuFacts(name, code, cpus, is_guest))

    assert 0 < power.idle_uw < power.max_uw


@given(st.sampled_from([row.name for row in TABLE.rows]), st.integers(1, 512))
def test_power_never_falls_with_more_cpus(name: str, cpus: int) -> None:
    fewer, more = (TABLE.find(CpuFacts(name, cpus=n, is_guest=True)) for n in (cpus, cpus + 1))

    assert fewer.idle_uw <= more.idle_uw
    assert fewer.max_uw <= more.max_uw


def test_marks_and_clock_rates_are_left_out_of_a_name() -> None:
    assert clean_name("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz") == "INTEL XEON E5-2680 V4"


@pytest.mark.parametrize(
    "row",
    [
        "X,,X,,spec,2,1,90,80,1,0,,40,s",
        "X,,X,,tdp,,1,,,,,,40,s",
        "X,,X,,tdp,2,,,,,,,40,s",
        "X,,(,,tdp,2,10,,,,,,40,s",
        "X,,X,,wish,2,10,,,,,,40,s",
        "X,none,X,,mean,,,,,,,,40,s",
        "X,,X,,spec,2,1,10,80,0,0,,40,s",
        "X,,X,,tdp,2,10,,,,,DDR9,40,s",
        "X",
        "X,,X,,tdp,2,10,,,,,,40,one,two",
    ],
)
def test_a_table_that_is_wrong_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_cpu_table(HEAD + row)


def _text() -> str:
    import kwhere.meters

    return (Path(kwhere.meters.__path__[0]) / "data" / "cpu_power.csv").read_text()
