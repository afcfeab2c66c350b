"""Why an energy source is not read, in words: a table of (source, reason), then of reasons alone, then of none.

A reason that nobody wrote a row for still gives a line: its word and what the source said.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kwhere.kernel.hwmon import HWMON_DIRECTORY
from kwhere.local.doctor import CheckState, Remedy
from kwhere.local.doctor_meter_remedies import install_program, load_ipmi, open_ipmi, open_perf
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import open_files
from kwhere.meters.registry import SourceStatus

ANY = "*"
PERF_PARANOID = "proc/sys/kernel/perf_event_paranoid"
Remedies = Callable[[SourceStatus, Place], tuple[Remedy, ...]]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to say of a source with a reason; the source's own detail comes before `why`."""

    state: CheckState
    found: str
    why: str = ""
    remedies: Remedies | None = None
    says_detail: bool = True


def _missing(found: str, why: str = "", *, says_detail: bool = False) -> Advice:
    return Advice(CheckState.MISSING, found, why, says_detail=says_detail)


def _warning(found: str, why: str = "", remedies: Remedies | None = None) -> Advice:
    return Advice(CheckState.WARNING, found, why, remedies)


def _failed(found: str, why: str = "", remedies: Remedies | None = None) -> Advice:
    return Advice(CheckState.FAILED, found, why, remedies)


def _open_perf(_: SourceStatus, place: Place) -> tuple[Remedy, ...]:
    text = place.fs.read_text(PERF_PARANOID).strip() if place.fs.exists(PERF_PARANOID) else ""
    return open_perf(place.user, int(text) if text.lstrip("-").isdecimal() else None)


def _open_hwmon(status: SourceStatus, place: Place) -> tuple[Remedy, ...]:
    kind = "energy*_input" if status.source == "hwmon_energy" else "power*_*"
    return (open_files(f"{place.fs.path(HWMON_DIRECTORY)}/*/{kind}", place.user),)


_PERF_CLOSED = _failed("closed to this user", "Start kwhere anew once it is open.", _open_perf)
_SPARE = _missing("not opened: powercap reads the same counters", "Nothing to do.")
_BMC_OFF = "The BMC's own page, or its maker's tool, switches power measurement on."
_LOGIN = "Check `username` and the file or variable of password or token; accounts lock after a few wrong ones."

ADVICE: Mapping[tuple[str, str], Advice] = {
    ("perf", "permission"): _PERF_CLOSED,
    ("perf_psys", "permission"): _missing("closed to this user", "The command for meter perf opens this one too."),
    ("perf", "spare"): _SPARE,
    ("perf_psys", "spare"): _SPARE,
    ("perf", "recorded"): _missing(
        "here, not opened: this is a copied tree", "On the machine itself it takes CAP_PERFMON; doctor says there how."
    ),
    ("perf_psys", "recorded"): _missing("here, not opened: this is a copied tree"),
    ("perf", "unsupported"): _missing("the kernel lists events that this processor has not", says_detail=True),
    ("perf_psys", "unsupported"): _missing("the kernel lists events that this processor has not", says_detail=True),
    ("psys", "below_components"): _failed(
        "shows less than the packages inside it",
        "On some servers psys is in another unit. It is not used; meters.off: [psys] keeps it from being read.",
    ),
    ("cray", "stuck"): _failed(
        "stands still", "The node's controller has stopped updating its counters; it has to be restarted."
    ),
    ("cray", "unsupported"): _failed("shows no counter above 0", "The node's controller does not measure this blade."),
    ("hwmon_power", "permission"): _failed("readable by root only", "Start kwhere anew once it is open.", _open_hwmon),
    ("hwmon_energy", "permission"): _failed("readable by root only", "Start kwhere anew once it is open.", _open_hwmon),
    ("hwmon_power", "timeout"): _failed("does not answer", "The BMC behind the board's power meter is busy or hangs."),
    ("ipmi_dcmi", "no_driver"): _warning(
        "the board has a BMC, its driver is not loaded", remedies=lambda _s, _p: load_ipmi()
    ),
    ("ipmi_dcmi", "no_device"): _warning(
        "the BMC's device is not visible here", "Start the container with `--device /dev/ipmi0`, or kwhere on the host."
    ),
    ("ipmi_dcmi", "permission"): _failed(
        "the BMC's device is closed to this user",
        "Start kwhere anew once it is open.",
        lambda _, place: open_ipmi(place.user, place.finds_program),
    ),
    ("ipmi_dcmi", "no_program"): _failed(
        "the program that the settings name is not installed",
        remedies=lambda status, place: install_program(status.detail, place.finds_program),
    ),
    ("ipmi_dcmi", "unsupported"): _missing(
        "the BMC has no power reading by DCMI", "Its Redfish may have one: set meters.redfish.url.", says_detail=True
    ),
    ("ipmi_dcmi", "inactive"): _warning("the BMC's power measurement is switched off", _BMC_OFF),
    ("ipmi_dcmi", "unauthorized"): _failed("the BMC refuses us", _LOGIN),
    ("redfish", "unconfigured"): _missing(
        "not set up", "Where the node has a BMC with Redfish: set meters.redfish.url and its client's user."
    ),
    ("redfish", "credentials"): _failed("no password to show", "Set meters.redfish.client.password_file."),
    ("redfish", "unauthorized"): _failed("our password or token is not taken", _LOGIN),
    ("redfish", "permission"): _failed(
        "the BMC's user may not read power", "Give it the role ReadOnly; some makers also want a licence for power."
    ),
    ("redfish", "unsupported"): _failed(
        "the BMC shows no power", "Its firmware may be too old; IPMI DCMI often has what Redfish has not."
    ),
    ("redfish", "ambiguous"): _failed(
        "the BMC shows several powers", "Name those that are this node: meters.redfish.chassis, .power_control."
    ),
    ("redfish", "absent"): _warning("the BMC has the resource and no power in it", _BMC_OFF),
    ("redfish", "unlisted"): _failed(
        "the proxy does not know this node", "Add it to redfish_proxy.targets there, by the name in meters.redfish.url."
    ),
    ("redfish", "not_found"): _failed("the BMC has no such chassis", "See meters.redfish.chassis."),
    ("http_json", "unconfigured"): _missing(
        "not set up", "Where a PDU or a site's store has this node's power: set meters.http_json.readings."
    ),
    ("http_json", "credentials"): _failed("no password or token to show", "See the client of meters.http_json."),
    ("http_json", "unauthorized"): _failed("the service does not take our password or token", _LOGIN),
    ("http_json", "permission"): _failed("the service does not let us read", "See the client of meters.http_json."),
    ("http_json", "absent"): _warning("the service answers without a power", "See meters.http_json.readings."),
    ("battery", "absent"): _missing("no battery"),
    ("battery", "on_ac"): _missing("runs on the mains: a battery tells nothing now", "Nothing to do."),
    ("battery", "unsupported"): _missing("the battery does not tell its power", says_detail=True),
    ("scmi", "unsupported"): _missing("the firmware lists zones that it does not measure", says_detail=True),
    ("hypervisor", "absent"): _warning("the host does not know this guest", "See agent.guests there (docs/guests.md)."),
    ("hypervisor", "permission"): _failed(
        "the feed is closed to us", "See meters.hypervisor.token_file here and agent.guests on the host."
    ),
    ("hypervisor", "stale"): _failed("the feed stands still", "The host's agent does not run, or no longer shares it."),
    ("model", "absent"): _failed("not even the CPUs are known", "Check path.procfs and path.sysfs."),
    (ANY, "nonsense"): _failed(
        "shows what no machine can draw",
        "Nothing is booked of it. Leave it out by its name in meters.off: another source, or the model, then speaks.",
    ),
    (ANY, "released"): _missing("given back on request", "The line of the GPUs says by whom and for how long."),
    (ANY, "asleep"): _missing("its GPU sleeps", "It is left asleep: to read it would wake it."),
    (ANY, "driver"): _failed("its driver is not loaded", "The line of the GPUs says more."),
    (ANY, "mismatch"): _failed("driver and library are of different versions", "The line of the GPUs says more."),
    (ANY, "lost"): _failed("no GPU answers", "The lines of the GPUs say more."),
    (ANY, "reset_required"): _failed("no GPU answers", "The lines of the GPUs say more."),
    (ANY, "off"): _missing("left out by the settings", "meters.off names it."),
    (ANY, "recorded"): _missing("not asked: this is a copied tree"),
    (ANY, "unconfigured"): _missing("not set up", says_detail=True),
    (ANY, "unsupported"): _missing("is here and answers nothing", "Usual in virtual machines.", says_detail=True),
    (ANY, "busy"): _warning("is busy", "It is asked again, ever more seldom."),
    (ANY, "timeout"): _failed("does not answer in time", "Check the network to it, or give it longer."),
    (ANY, "refused"): _failed("refuses the connection", "Check address and port."),
    (ANY, "dns"): _failed("its name is not known", "Check the address, and how {name} is made."),
    (ANY, "tls"): _failed(
        "its certificate is not trusted", "Name its authority (`ca_file`) or its fingerprint (`tls_sha256`)."
    ),
    (ANY, "network"): _failed("cannot be reached", "Check the network to it."),
    (ANY, "closed"): _failed("closes the connection", "It may be restarting; it is asked again."),
    (ANY, "failed"): _failed("its program ended with an error", "Run it by hand: the detail names it."),
    (ANY, "server_error"): _failed("answers with an error of its own", "It may be restarting; it is asked again."),
    (ANY, "stuck"): _failed("stands still", "Its value has not moved although the machine was busy."),
    (ANY, "stale"): _failed("stands still", "The time stamp of its readings does not move."),
    (ANY, "below_components"): _failed(
        "shows less than the components inside it", "See docs/meters.md: one of two supplies, GPUs outside, its unit."
    ),
}


def advice_for(source: str, reason: str) -> Advice:
    """Return what to say; of a reason that has no row, its word."""
    found = ADVICE.get((source, reason)) or ADVICE.get((ANY, reason))
    return found or Advice(CheckState.FAILED, f"cannot be used: {reason or 'no reason told'}")
