"""Commands that mend something, with what takes them back and what they give away."""

import shlex
from collections.abc import Callable

from kwhere.local.doctor import Remedy

ENERGY_RISK = (
    "Whatever runs as {user} can then read energy a thousand times a second, and with it keys and other secrets"
    " of other users and programs (CVE-2020-8694). Do it on machines that you share with nobody."
)
_RULE_FILE = "/etc/udev/rules.d/60-kwhere-powercap.rules"
_MODULE_FILE = "/etc/modules-load.d/kwhere.conf"
_GRUB_DIRECTORY = "/etc/default/grub.d"


def open_powercap(directory: str, user: str) -> tuple[Remedy, ...]:
    """Return the ways to let `user` read the RAPL counters below `directory`, the narrowest reach first."""
    counters = f"{directory}/*/energy_uj"
    name = shlex.quote(user)
    rule = f'SUBSYSTEM=="powercap", ATTR{{name}}=="?*", RUN+="/bin/chown {user} /sys%p/energy_uj"'
    risk = ENERGY_RISK.format(user=user)
    return (
        Remedy(
            f"sudo chown {name} {counters}",
            f"sudo chown root {counters}",
            risk,
            "until the next boot",
        ),
        Remedy(
            f"echo {shlex.quote(rule)} | sudo tee {_RULE_FILE} && sudo udevadm control --reload"
            " && sudo udevadm trigger --subsystem-match=powercap",
            f"sudo rm {_RULE_FILE} && sudo udevadm control --reload && sudo chown root {counters}",
            risk,
            "for good",
        ),
        read_everything(user),
    )


def read_everything(user: str) -> Remedy:
    """Return how to run kwhere as `user` with the right to read every file, and nothing else of root."""
    return Remedy(
        f"sudo systemd-run --unit=kwhere --property=User={shlex.quote(user)}"
        ' --property=AmbientCapabilities=CAP_DAC_READ_SEARCH "$(command -v kwhere)" up --no-open',
        "sudo systemctl stop kwhere",
        "kwhere itself may then read every file of this machine; no other program gains anything.",
        "for kwhere alone",
    )


def open_files(pattern: str, user: str) -> Remedy:
    """Return how to let `user` read kernel files until the next boot."""
    return Remedy(
        f"sudo chown {shlex.quote(user)} {pattern}",
        f"sudo chown root {pattern}",
        ENERGY_RISK.format(user=user),
        "until the next boot",
    )


def load_module(module: str) -> tuple[Remedy, ...]:
    """Return how to load a kernel module, now and at every boot."""
    return (
        Remedy(f"sudo modprobe {module}", f"sudo modprobe -r {module}", title="until the next boot"),
        Remedy(
            f"echo {module} | sudo tee -a {_MODULE_FILE} && sudo modprobe {module}",
            f"sudo sed -i /^{module}$/d {_MODULE_FILE} && sudo modprobe -r {module}",
            title="for good",
        ),
    )


def kernel_argument(argument: str, finds_program: Callable[[str], bool]) -> Remedy:
    """Return how to add a kernel argument with this machine's tools; it counts from the next boot on."""
    if finds_program("grubby"):
        return Remedy(
            f"sudo grubby --update-kernel=ALL --args={argument}",
            f"sudo grubby --update-kernel=ALL --remove-args={argument}",
            title="from the next boot on",
        )
    file = f"{_GRUB_DIRECTORY}/kwhere-{argument.partition('=')[0].replace('_', '-')}.cfg"
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {argument}"'
    return Remedy(
        f"sudo mkdir -p {_GRUB_DIRECTORY} && echo {shlex.quote(line)} | sudo tee {file} && sudo update-grub",
        f"sudo rm {file} && sudo update-grub",
        title="from the next boot on",
    )


def kernel_setting(name: str, value: int, present: int) -> Remedy:
    """Return how to raise a kernel setting until the next boot."""
    return Remedy(f"sudo sysctl -w {name}={value}", f"sudo sysctl -w {name}={present}", title="until the next boot")
