"""Whatever stands in a kernel file, a node collector says what is wrong in our words, or leaves the one value out."""

import contextlib
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS
from tests.recorded_hosts import Values, said
from tests.unit.collectors.test_node_series_budget import NODE_PLUGINS

from kwhere.collectors.collector import AnyPlugin
from kwhere.core.errors import KwhereError
from kwhere.kernel.hostfs import HostFS

FILES = (
    "proc/stat",
    "proc/loadavg",
    "proc/meminfo",
    "proc/cpuinfo",
    "proc/diskstats",
    "proc/net/dev",
    "proc/pressure/io",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id",
    "sys/class/hwmon/hwmon0/temp1_input",
    "sys/class/hwmon/hwmon0/temp1_label",
    "sys/class/hwmon/hwmon0/name",
    "sys/class/thermal/thermal_zone0/temp",
    "sys/class/thermal/thermal_zone0/type",
)


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def made_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def holding(data: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(data)

    return change


DAMAGE: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "directory": made_directory,
    "half": cut_in_half,
    "empty": holding(b""),
    "white": holding(b"\n \n"),
    "binary": holding(bytes(range(256))),
    "words": holding(b"the quick brown fox\n" * 3),
    "negative": holding(b"-1\n"),
    "digits": holding(b"9" * 5000),
    "lines": holding(b"cpu cpu: : | some full total= 1 2 3\n" * 50),
    "huge": holding(b"1\n" * (1 << 20)),
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain tree: the first moment of a host that has everything."""
    root = tmp_path_factory.mktemp("host")
    for area in ("proc", "sys"):
        shutil.copytree(HOSTS / "laptop-psys-mmio" / area / "0", root / area)
    return root


def everything(root: Path, plugins: tuple[AnyPlugin, ...] = NODE_PLUGINS) -> Values:
    fs = HostFS(root / "proc", root / "sys", root / "cgroup")
    found: Values = {}
    for plugin in plugins:
        with contextlib.suppress(KwhereError):  # anything else fails the test
            found |= said(plugin, fs)
    return found


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_one_file_stays_with_what_it_tells(pristine: Path, tmp_path: Path, damage: str) -> None:
    whole = everything(pristine)
    for number, path in enumerate(FILES):
        root = tmp_path / str(number)
        shutil.copytree(pristine, root, symlinks=True)
        DAMAGE[damage](root / path)

        found = everything(root)

        assert all(math.isfinite(value) for value in found.values()), path
        assert all(len(label) < 200 and label.isprintable() for _, labels in found for label in labels), path
        assert len(found) > len(whole) // 2, path
    assert len(whole) == 42
