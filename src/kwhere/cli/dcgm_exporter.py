"""`dcgm-exporter`: the program of that name, with its flags and variables, over our reading of the GPUs."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import click

from kwhere._version import __version__
from kwhere.cli.exits import run_command

PROGRAM = "dcgm-exporter"


class Kind(Enum):
    """What an option takes."""

    TEXT = "text"
    NUMBER = "number"
    SWITCH = "switch"
    LIST = "list"
    DURATION = "duration"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Option:
    """One flag of dcgm-exporter. `key` None: accepted, without effect here, and `help` says why."""

    flag: str
    variable: str
    help: str
    key: str | None = None
    kind: Kind = Kind.TEXT
    short: str = ""
    choices: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        """Return the name under which click hands it over."""
        return self.flag.replace("-", "_")

    def decorate(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Return `command` with this option."""
        names = [f"--{self.flag}", *((f"{'-' if len(self.short) == 1 else '--'}{self.short}",) if self.short else ())]
        more: dict[str, Any] = {"type": _TYPES[self.kind]}
        if self.choices:
            more["type"] = click.Choice(self.choices)
        if self.kind is Kind.SWITCH:  # as Go has it: alone, or with =true or =false
            more |= {"is_flag": False, "flag_value": "true"}
        if self.kind is Kind.LIST:
            more["multiple"] = True
        return click.option(*names, self.parameter, envvar=self.variable or None, default=None, help=self.help, **more)(
            command
        )


class _Duration(click.ParamType[str]):
    """A span of time as Go writes it."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text where it is one."""
        if not _SPAN.fullmatch(str(value)):
            self.fail(f"{value!r}: expected a duration as in 1s or 1m30s", param, ctx)
        return str(value)


_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+", re.ASCII)
_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.NUMBER: click.INT,
    Kind.SWITCH: click.BOOL,
    Kind.LIST: str,
    Kind.PATH: str,
    Kind.DURATION: _Duration(),
}
_DCGM = "DCGM_EXPORTER_"
_ALWAYS = "Without effect: kwhere does so in any case"
_NO_DCGM = "Without effect: there is no DCGM inside"


def _option(flag: str, help_text: str, kind: Kind = Kind.TEXT, short: str = "", variable: str = "") -> Option:
    """Return an option that is a setting of its own name."""
    name = variable or _DCGM + flag.replace("-", "_").upper()
    return Option(flag, name, help_text, flag.replace("-", "_"), kind, short)


def _idle(flag: str, why: str, kind: Kind = Kind.SWITCH, variable: str = "", choices: tuple[str, ...] = ()) -> Option:
    """Return an option that is taken and does nothing."""
    return Option(flag, variable or _DCGM + flag.replace("-", "_").upper(), why, None, kind, "", choices)


OPTIONS: tuple[Option, ...] = (
    _option("collectors", "Counters file: FIELD, type, help", Kind.PATH, "f"),
    _option("address", "Address to listen on", short="a", variable=_DCGM + "LISTEN"),
    _option("collect-interval", "Milliseconds between samples", Kind.NUMBER, "c", _DCGM + "INTERVAL"),
    _option("kubernetes", "Put pods on the series", Kind.SWITCH, "k"),
    _option("use-old-namespace", "Labels of 1.x", Kind.SWITCH, "o"),
    _option("cpu-devices", "CPUs; checked, without effect", short="p", variable=_DCGM + "CPU_DEVICES_STR"),
    _option("configmap-data", "NAMESPACE:NAME of a ConfigMap with the counters, or none", short="m"),
    _option(
        "remote-hostengine-info",
        "HOST:PORT; names the host in the label, GPUs are those of this machine",
        short="r",
        variable="DCGM_REMOTE_HOSTENGINE_INFO",
    ),
    _option("kubernetes-enable-pod-labels", "Put pods' labels on the series", Kind.SWITCH),
    _option("kubernetes-enable-pod-uid", "Put pods' uids on the series", Kind.SWITCH),
    Option(
        "kubernetes-gpu-id-type",
        _DCGM + "KUBERNETES_GPU_ID_TYPE",
        "How a device plugin names devices; both are always understood",
        "kubernetes_gpu_id_type",
        choices=("uid", "device-name"),
    ),
    _option("kubernetes-pod-label-allowlist-regex", "Pod labels that are added; several with commas", Kind.LIST),
    _option("devices", "GPUs shown: f, g, g:0,2-3, i, i:0-6", short="d", variable=_DCGM + "DEVICES_STR"),
    _option("no-hostname", "Leave out the label Hostname", Kind.SWITCH, "n"),
    _option("switch-devices", "NvSwitches; checked, without effect", short="s", variable=_DCGM + "OTHER_DEVICES_STR"),
    _idle("fake-gpus", _NO_DCGM, variable=_DCGM + "USE_FAKE_GPUS"),
    _option("web-config-file", "Prometheus web config file: TLS, users", Kind.PATH),
    _option("web-systemd-socket", "Take the socket from systemd", Kind.SWITCH, variable=_DCGM + "SYSTEMD_SOCKET"),
    _option("xid-count-window-size", "Milliseconds in which XIDs are counted", Kind.NUMBER, "x"),
    _option("clock-events-count-window-size", "Milliseconds in which clock events are counted", Kind.NUMBER),
    _option("replace-blanks-in-model-name", "Write dashes for blanks in models' names", Kind.SWITCH, "rbmn"),
    _option("debug", "Log more", Kind.SWITCH),
    _idle("enable-dcgm-log", _NO_DCGM),
    _idle("dcgm-log-level", _NO_DCGM, Kind.TEXT, choices=("NONE", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "VERB")),
    Option("log-format", _DCGM + "LOG_FORMAT", "text or json", "log_format", choices=("text", "json")),
    _option(
        "pod-resources-kubelet-socket",
        "kubelet's socket",
        Kind.PATH,
        variable="DCGM_POD_RESOURCES_KUBELET_SOCKET",
    ),
    _option("hpc-job-mapping-dir", "Directory of job files", Kind.PATH, variable="DCGM_HPC_JOB_MAPPING_DIR"),
    _option("nvidia-resource-names", "More resource names of GPUs", Kind.LIST, variable="NVIDIA_RESOURCE_NAMES"),
    _option("kubernetes-virtual-gpus", "Series for each pod", Kind.SWITCH, variable="KUBERNETES_VIRTUAL_GPUS"),
    _option("kubernetes-enable-dra", "Map claimed devices", Kind.SWITCH, variable="KUBERNETES_ENABLE_DRA"),
    _idle("dump-enabled", "Without effect: nothing is dumped"),
    _idle("dump-directory", "Without effect: nothing is dumped", Kind.TEXT),
    _idle("dump-retention", "Without effect: nothing is dumped", Kind.NUMBER),
    _idle("dump-compression", "Without effect: nothing is dumped"),
    _idle("disable-startup-validate", "Without effect: GPUs may come later", variable="DISABLE_STARTUP_VALIDATE"),
    _idle("enable-gpu-bind-unbind-watch", _ALWAYS),
    _idle("gpu-bind-unbind-poll-interval", _ALWAYS, Kind.DURATION),
    _idle("enable-pprof", "Without effect: there is no /debug/pprof"),
)
"""What dcgm-exporter 4.8.2 knows."""

OWN_OPTIONS: tuple[Option, ...] = (
    Option(
        "hostname-label",
        _DCGM + "HOSTNAME_LABEL",
        "Label of the node's name; releases after 4.8.2 write it small",
        "hostname_label",
        choices=("Hostname", "hostname", "both"),
    ),
    Option(
        "mig-device-values",
        _DCGM + "MIG_DEVICE_VALUES",
        "What belongs to a whole divided GPU: on each instance, or once",
        "mig_device_values",
        choices=("repeat", "once"),
    ),
    Option(
        "mapping-labels",
        _DCGM + "MAPPING_LABELS",
        "Pods and jobs on every series, on one info series to join, or both",
        "mapping_labels",
        choices=("series", "info", "both"),
    ),
    _option("kubernetes-label-prefix", "Stands before the labels of pods"),
    Option("nvml-library", _DCGM + "NVML_LIBRARY", "File of NVIDIA's library", "nvml_library", Kind.PATH),
)
"""What only this one knows."""


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS + OWN_OPTIONS):
        command = option.decorate(command)
    return command


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-v", "--version", message="dcgm-exporter of kwhere %(version)s")
@_with_options
def dcgm_exporter(**values: Any) -> int:
    """Show the GPUs of this node as NVIDIA's dcgm-exporter does, without DCGM.

    Flags and variables are those of dcgm-exporter 4.8.2; the last ones below are ours. SIGHUP reads the counters file
    again, and so does a change of it; a wrong one is told and leaves the old one in force.
    """
    from kwhere.apps.dcgm_exporter import run_exporter

    given = given_settings(values)
    idle = [f"--{one.flag}" for one in OPTIONS if one.key is None and values.get(one.parameter) is not None]
    library = given.pop("nvml_library", "")
    return run_exporter(given, idle, nvml_library=str(library), environ=os.environ)


def given_settings(values: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings that were given, by key."""
    found: dict[str, object] = {}
    for option in OPTIONS + OWN_OPTIONS:
        value = values.get(option.parameter)
        if option.key is None or value is None or value == ():
            continue
        if option.kind is Kind.LIST:
            value = tuple(part.strip() for item in value for part in item.split(",") if part.strip())
        found[option.key] = value
    return found


def as_click(arguments: Sequence[str]) -> list[str]:
    """Return Go's way of writing flags in click's: one dash for long names, lists in variables apart."""
    long_names = {one.flag for one in OPTIONS + OWN_OPTIONS} | {one.short for one in OPTIONS if len(one.short) > 1}
    found = []
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        is_long = argument.startswith("-") and name in long_names
        found.append("--" + argument.lstrip("-") if is_long else argument)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit: 0 ended as asked, 1 failed, 2 usage or settings."""
    sys.exit(run_program(sys.argv[1:] if arguments is None else arguments))


def run_program(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    return run_command(dcgm_exporter, as_click(arguments), PROGRAM)
