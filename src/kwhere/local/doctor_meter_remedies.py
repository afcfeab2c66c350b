"""Commands that open an energy source other than RAPL, with what they give away."""

import re
import shlex
from collections.abc import Callable

from kwhere.local.doctor import Remedy
from kwhere.local.doctor_remedies import ENERGY_RISK

IPMI_MODULES = ("ipmi_si", "ipmi_devintf")
PACKAGES = {
    "ipmi-dcmi": "freeipmi-tools",
    "ipmipower": "freeipmi-tools",
    "ipmitool": "ipmitool",
    "ipmiutil": "ipmiutil",
}
"""Debian's package of each program that may ask a BMC."""
_RED_HAT = {"freeipmi-tools": "freeipmi"}
_MODULE_FILE = "/etc/modules-load.d/kwhere-ipmi.conf"
_IPMI_RULE = "/etc/udev/rules.d/60-kwhere-ipmi.rules"
_SUDO_FILE = "/etc/sudoers.d/kwhere-ipmi"
_IPMI_RISK = (
    "Whoever may open this device controls the BMC: power, firmware, its users. Give it to an account that runs"
    " kwhere and nothing else."
)


def load_ipmi() -> tuple[Remedy, ...]:
    """Return how to load the kernel's IPMI driver, now and at every boot."""
    modules = " ".join(IPMI_MODULES)
    lines = "\\n".join(IPMI_MODULES)
    unload = f"sudo modprobe -r {' '.join(reversed(IPMI_MODULES))}"
    return (
        Remedy(f"sudo modprobe -a {modules}", unload, title="until the next boot"),
        Remedy(
            f"printf '{lines}\\n' | sudo tee {_MODULE_FILE} && sudo modprobe -a {modules}",
            f"sudo rm {_MODULE_FILE} && {unload}",
            title="for good",
        ),
    )


def open_ipmi(user: str, finds_program: Callable[[str], bool]) -> tuple[Remedy, ...]:
    """Return the ways to let `user` ask the BMC, the narrowest reach first."""
    name = shlex.quote(user)
    rule = f'KERNEL=="ipmi[0-9]*", OWNER="{user}", MODE="0600"'
    ways = (
        Remedy(f"sudo chown {name} /dev/ipmi0", "sudo chown root /dev/ipmi0", _IPMI_RISK, "until the next boot"),
        Remedy(
            f"echo {shlex.quote(rule)} | sudo tee {_IPMI_RULE} && sudo udevadm control --reload"
            " && sudo udevadm trigger --subsystem-match=ipmi",
            f"sudo rm {_IPMI_RULE} && sudo udevadm control --reload && sudo chown root /dev/ipmi0",
            _IPMI_RISK,
            "for good",
        ),
    )
    if not finds_program("ipmi-dcmi"):
        return ways
    line = f"{user} ALL=(root) NOPASSWD: /usr/sbin/ipmi-dcmi --driver-type=OPENIPMI --get-system-power-statistics"
    narrow = Remedy(
        f"echo {shlex.quote(line)} | sudo tee {_SUDO_FILE} && sudo chmod 440 {_SUDO_FILE}",
        f"sudo rm {_SUDO_FILE}",
        title="for this one question alone, with meters.ipmi_dcmi.way: freeipmi and command:"
        " [sudo, -n, /usr/sbin/ipmi-dcmi]",
    )
    return (narrow, *ways)


def install_program(detail: str, finds_program: Callable[[str], bool]) -> tuple[Remedy, ...]:
    """Return how to install the program that `detail` misses, with this machine's tools."""
    found = re.search(r"expected the program (\S*?([^\s/,]+)),", detail)
    package = PACKAGES.get(found[2]) if found else None
    if package is None:
        return ()
    if finds_program("dnf"):
        package = _RED_HAT.get(package, package)
        return (Remedy(f"sudo dnf install {package}", f"sudo dnf remove {package}"),)
    if finds_program("zypper"):
        package = _RED_HAT.get(package, package)
        return (Remedy(f"sudo zypper install {package}", f"sudo zypper remove {package}"),)
    return (Remedy(f"sudo apt-get install {package}", f"sudo apt-get remove {package}"),)


def open_perf(user: str, paranoid: int | None) -> tuple[Remedy, ...]:
    """Return the ways to let `user` count the events of the unit `power`, the narrowest reach first."""
    name = shlex.quote(user)
    undo = None if paranoid is None else f"sudo sysctl -w kernel.perf_event_paranoid={paranoid}"
    return (
        Remedy(
            f"sudo systemd-run --unit=kwhere --property=User={name}"
            ' --property=AmbientCapabilities=CAP_PERFMON "$(command -v kwhere)" up --no-open',
            "sudo systemctl stop kwhere",
            "kwhere itself may then watch every process of this machine; no other program gains anything.",
            "for kwhere alone",
        ),
        Remedy(
            "sudo sysctl -w kernel.perf_event_paranoid=0",
            undo,
            ENERGY_RISK.replace("runs as {user}", "runs here"),
            "for every user, until the next boot",
        ),
    )
