"""Checks of what kwhere keeps and runs on this machine: directory, journal, agent, server, tokens, packages, zone."""

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from kwhere.core.errors import JournalError, KwhereError, NotPermitted, Unavailable
from kwhere.ledger.file_system import Durability, file_system_of
from kwhere.ledger.journal import FILE_NAME
from kwhere.ledger.journal_store import journal_errors
from kwhere.local.agent_client import SOCKET_NAME
from kwhere.local.doctor import Check, Examination, Remedy, failed, missing, ok, warning
from kwhere.local.doctor_journal import read_holdings
from kwhere.local.doctor_place import Here
from kwhere.local.server_part import SERVER_MODULES
from kwhere.reports.figures import BYTES, ago, quantity, significant, utc_of

TOKEN_FILES = ("token", "ledger-token")
_MEBIBYTE = 1 << 20
_MOVE = "Name a directory on a disk of this machine with --state (setting agent.state)."


def check_state_directory(here: Here) -> Check:
    """Say whether the account can be kept where it is to be kept."""
    directory = here.state_dir
    standing = _nearest(directory)
    durability, file_system = file_system_of(standing)
    if durability is Durability.NETWORK:
        return failed(
            "state", f"{directory} lies on {file_system}", f"The journal needs this machine's own disk. {_MOVE}"
        )
    if not os.access(standing, os.W_OK | os.X_OK):
        if (directory / SOCKET_NAME).exists():
            return missing("state", f"{directory} belongs to another user's agent", "Root may look into it.")
        why = f"{standing} belongs to another user: the journal cannot be written by you. {_MOVE}"
        return failed("state", f"{directory} is not ours", why)
    room = os.statvfs(standing)
    free = room.f_bavail * room.f_frsize
    wanted = int(here.journal_max_mebibytes * _MEBIBYTE)
    found = f"{directory}, {quantity(float(free), BYTES)} free"
    if durability is Durability.MEMORY:
        why = f"{file_system}: the account ends with the next boot. {_MOVE}"
        return warning("state", found, why)
    if free < wanted:
        why = f"The journal may grow to {quantity(float(wanted), BYTES)} (setting journal.max_mebibytes)."
        return warning("state", found, why)
    return ok("state", found if directory.exists() else f"{found}, made at the first start")


def check_journal(here: Here) -> Check:
    """Say what the journal holds, and whether it is this machine's."""
    path = here.state_dir / FILE_NAME
    if not path.exists():
        return missing("journal", "none yet", "It is made by `kwhere up` or `kwhere agent`.")
    try:
        with journal_errors(path):
            return _look_into(path, here)
    except JournalError as error:
        if not os.access(path, os.R_OK | os.W_OK):
            return missing("journal", "another user's", f"{path} is not yours to read. Root may look into it.")
        aside = f"{path}.aside"
        return failed(
            "journal",
            f"cannot be read ({error.cause})",
            f"{error}. The agent sets a damaged journal aside at its next start and begins a new one.",
            Remedy(
                f"mv {shlex.quote(str(path))} {shlex.quote(aside)}",
                f"mv {shlex.quote(aside)} {shlex.quote(str(path))}",
                "Slots that no server has pulled stay in the file set aside. Stop the agent first.",
            ),
        )


def check_agent(here: Here) -> Check:
    """Say whether an agent runs on this state directory."""
    try:
        hello = here.ask_agent({"get": "hello"})
    except NotPermitted as error:
        return warning("agent", "runs and refuses to answer", str(error))
    except Unavailable as error:
        if error.reason in ("absent", "refused"):
            return missing("agent", "none runs here", "Start one to account this machine.", Remedy("kwhere up"))
        return warning("agent", f"no answer ({error.reason})", str(error))
    return ok("agent", f"runs as {hello.get('node')}, version {hello.get('version')}")


def check_server(here: Here) -> Check:
    """Say whether the pages of `kwhere up` answer."""
    if not (here.state_dir / "url").exists():
        return missing("server", "none was started here", "`kwhere up` brings the pages and the API.")
    try:
        health = here.ask_server("/health")
    except NotPermitted as error:
        return warning("server", "answers and does not let us in", str(error))
    except Unavailable as error:
        return missing("server", f"does not answer ({error.reason})", str(error), Remedy("kwhere up"))
    found = f"answers at {(here.state_dir / 'url').read_text().strip()}"
    reasons = health.get("reasons") or []
    return warning("server", found, f"{'; '.join(reasons)}.") if reasons else ok("server", found)


def check_tokens(here: Here) -> Sequence[Check]:
    """Say of each token file whether its owner alone reads it."""
    found = []
    for name in TOKEN_FILES:
        path = here.state_dir / name
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        found.append(_check_mode(name.replace("-", "_"), path, mode))
    return found


def check_packages(here: Here) -> Check:
    """Say whether what the server part needs is installed."""
    absent = [name for name in SERVER_MODULES if not here.has_module(name)]
    if not absent:
        return ok("packages", "agent and server parts are installed")
    names = " ".join(name.replace("_", "-") for name in absent)
    python = shlex.quote(sys.executable)
    return missing(
        "packages",
        "the agent part alone is installed",
        f"`kwhere up` and `kwhere server` need {', '.join(name.replace('_', '-') for name in absent)}.",
        Remedy(f"{python} -m pip install 'kwhere[server]'", f"{python} -m pip uninstall -y {names}"),
    )


def check_zone(here: Here) -> Check:
    """Say from which grid the energy is said to come."""
    if here.zone is not None:
        return ok("emission_zone", here.zone)
    in_force = _factor_in_force(here)
    if in_force is not None:
        why = "The country of the time zone unless it was chosen; the Overview page offers others."
        return ok("emission_zone", in_force, why)
    if here.proposed_zone is not None:
        why = "Proposed by the time zone. Confirm it on the Overview page, or set site.zone."
        return missing("emission_zone", f"{here.proposed_zone}, not confirmed", why)
    why = "The time zone names no country: no CO2e is shown. Choose one on the Overview page, or set site.zone."
    return missing("emission_zone", "not set", why)


def _factor_in_force(here: Here) -> str | None:
    """Return the zone and factor that the server reports with; None without a server or a factor."""
    if not (here.state_dir / "url").exists():
        return None
    try:
        factors = here.ask_server("/emission-factors").get("items") or []
    except KwhereError:
        return None
    reporting = next((factor for factor in factors if factor.get("reporting")), None)
    if reporting is None:
        return None
    return f"{reporting['zone']}, {significant(reporting['grams_per_kwh'])} g/kWh by {reporting['provider']}"


def _look_into(path: Path, here: Here) -> Check:
    held = read_holdings(path)
    if held.bound is not None and not held.bound_to(here.identity):
        why = f"It was written on {held.bound.node}. The agent sets it aside at its start and begins a new one."
        return warning("journal", "belongs to another machine", why)
    if held.gone > 0:
        return warning(
            "journal", f"{held.slots} slots, {held.gone} in between are gone", "A server books them as lost."
        )
    if held.newest_end_ns is None:
        return ok("journal", "holds no slot yet")
    now = utc_of(here.clock.utc_ns())
    age = ago(utc_of(held.newest_end_ns), now)
    return ok("journal", f"{held.slots} slots, {quantity(float(held.used_bytes), BYTES)}, the newest {age}")


def _check_mode(name: str, path: Path, mode: int) -> Check:
    if not mode & 0o077:
        return ok(name, f"{path} is its owner's alone")
    quoted = shlex.quote(str(path))
    return failed(
        name,
        f"others may read {path} (mode {mode:04o})",
        "Who has it reads the whole account. Remove it after the command: a new one is made at the next start.",
        Remedy(f"chmod 600 {quoted}", f"chmod {mode:o} {quoted}", "The undo gives the token to every user again."),
    )


def _nearest(directory: Path) -> Path:
    """Return the directory, or the nearest above it that exists."""
    for path in (directory, *directory.parents):
        if path.exists():
            return path
    raise KwhereError(f"{directory}: nothing above it exists")


CHECKS = (
    Examination("state", "Here", check_state_directory),
    Examination("journal", "Here", check_journal),
    Examination("agent", "Here", check_agent),
    Examination("server", "Here", check_server),
    Examination("token", "Here", check_tokens),
    Examination("packages", "Here", check_packages),
    Examination("emission_zone", "Here", check_zone),
)
