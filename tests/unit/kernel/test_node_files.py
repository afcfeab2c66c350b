"""The small files of /proc: one table of texts and what they say, and anything else is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.kernel.diskstats import DiskReading, parse_diskstats
from kwhere.kernel.frequency import CpuFrequency, parse_cpuinfo_frequencies
from kwhere.kernel.identity import CpuModel, parse_cpu_model
from kwhere.kernel.loadavg import LoadAverage, parse_loadavg
from kwhere.kernel.memory import NodeMemory, parse_meminfo
from kwhere.kernel.netdev import InterfaceReading, parse_net_dev
from kwhere.kernel.numbers import cpu_list, fraction
from kwhere.kernel.pressure import Pressure, parse_pressure
from kwhere.kernel.stat import parse_stat
from kwhere.kernel.uptime import Uptime, parse_uptime

NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo:    5       1    0    0    0     0          0         0        5       1    0    0    0     0       0          0
eth0:1:700 7 3 0 0 0 0 0 900 9 4 0 0 0 0 0
"""


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (parse_uptime, "86400.05 1000.00\n", Uptime(86_400_050_000_000)),
        (parse_uptime, "7\n", Uptime(7_000_000_000)),
        (parse_loadavg, "0.20 1.5 12.34 1/80 11206\n", LoadAverage(20, 150, 1234)),
        (
            parse_meminfo,
            "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:\t2 kB\n"
            "HugePages_Total:   3\nHugepagesize: 2048 kB\nNew(x): 1\n",
            NodeMemory(16_777_216, 1024, 2048, huge_pages_total=3, huge_page_bytes=2_097_152),
        ),
        (parse_meminfo, "MemTotal: 0 kB\n", NodeMemory(0)),
        (
            lambda text: parse_pressure(text, "p"),
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=7\n",
            Pressure(12, 7),
        ),
        (lambda text: parse_pressure(text, "p"), "full avg10=0.00 total=7\n", Pressure(None, 7)),
        (
            parse_diskstats,
            "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n"
            " 104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n   8 1 sda1 1 2 3 4\n",
            [DiskReading("sda", 1, 3, 5, 7, 10), DiskReading("cciss/c0d0", 1, 3, 5, 7, 10)],
        ),
        (parse_diskstats, "", []),
        (parse_net_dev, NET, [InterfaceReading("lo", 5, 0, 5, 0), InterfaceReading("eth0:1", 700, 3, 900, 4)]),
        (
            parse_cpuinfo_frequencies,
            "processor\t: 3\ncpu MHz\t\t: 2499.998\n\nprocessor\t: 15\ncpu MHz : 800\n",
            {3: CpuFrequency(2_499_998), 15: CpuFrequency(800_000)},
        ),
        (parse_cpuinfo_frequencies, "processor\t: 0\nBogoMIPS\t: 50.00\n", {}),
        (
            parse_cpu_model,
            "processor: 0\nvendor_id : AuthenticAMD\ncpu family: 23\nmodel: 49\n"
            "model name: AMD X: Y\nmodel name: other\n",
            CpuModel("AuthenticAMD", 23, 49, "AMD X: Y"),
        ),
        (parse_cpu_model, "cpu\t\t: POWER9, altivec supported\n", CpuModel(name="POWER9, altivec supported")),
        (parse_cpu_model, "", CpuModel()),
        (lambda text: cpu_list(text, "p"), "0-2,8,10-11\n", (0, 1, 2, 8, 10, 11)),
        (lambda text: cpu_list(text, "p"), "\n", ()),
        (lambda text: fraction(text, "p", 3), "12.3456", 12_345),
    ],
)
def test_files_say(parse: Callable[[str], object], text: str, found: object) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_uptime, ""),
        (parse_uptime, "x"),
        (parse_uptime, "-1.00 0"),
        (parse_uptime, "1.2.3 0"),
        (parse_loadavg, "0.20 0.18"),
        (parse_loadavg, "nan nan nan"),
        (parse_meminfo, "MemFree: 3 kB\n"),
        (parse_meminfo, "MemTotal: 3 MB\n"),
        (parse_meminfo, "MemTotal:\n"),
        (parse_meminfo, "MemTotal: -3 kB\n"),
        (lambda text: parse_pressure(text, "p"), ""),
        (lambda text: parse_pressure(text, "p"), "some avg10=0.00\n"),
        (lambda text: parse_pressure(text, "p"), "some total=-1\n"),
        (parse_diskstats, "8 0 sda 1 2 3\n"),
        (parse_diskstats, "8 0 sda 1 2 3 4 5 6 7 8 9 x 11\n"),
        (parse_net_dev, "eth0: 1 2 3\n"),
        (parse_net_dev, "eth0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"),
        (lambda text: cpu_list(text, "p"), "3-1"),
        (lambda text: cpu_list(text, "p"), "0-4294967295"),
        (lambda text: cpu_list(text, "p"), "all"),
    ],
)
def test_what_they_cannot_say_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(SourceError, match=": expected "):
        parse(text)


PARSERS: list[Callable[[str], object]] = [
    parse_stat,
    parse_uptime,
    parse_loadavg,
    parse_meminfo,
    parse_diskstats,
    parse_net_dev,
    parse_cpuinfo_frequencies,
    parse_cpu_model,
    lambda text: parse_pressure(text, "p"),
    lambda text: cpu_list(text, "p"),
]
kernel_like = st.text(alphabet="0123456789 .:|=-kB\n\tabemMTtolfsu_%\x00٣", max_size=300)
words = st.lists(
    st.sampled_from(
        ["MemTotal:", "kB", "some", "full", "total=", "cpu", "cpu0", "-", "1", "99", "\n", ":", "sda", "1.5"]
    )
).map(" ".join)


@pytest.mark.parametrize("parse", PARSERS)
@given(text=kernel_like | words | st.text())
def test_any_text_is_read_or_refused(parse: Callable[[str], object], text: str) -> None:
    message = ""
    try:
        parse(text)
    except SourceError as refused:
        message = str(refused)

    assert len(message) < 300
