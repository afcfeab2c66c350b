"""Which calibration the model of this machine uses, if any."""

import os
from dataclasses import replace
from pathlib import Path

import structlog

from kwhere.apps.configuration import default_state_dir
from kwhere.core.errors import ConfigError, SourceError
from kwhere.energy.calibration import Calibration, parse_calibration
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.meter import MeterContext

FILE_NAME = "calibration.json"
LARGEST_BYTES = 65536

log = structlog.get_logger(__name__)


def with_calibration(context: MeterContext, state_dir: Path | None) -> MeterContext:
    """Return `context` with the calibration of this machine: the settings' file, else that of the state directory.

    `state_dir` None: the one that an agent would have here.

    One of another machine is not used, and logged. Raises ConfigError for a file that the settings name and that
    cannot be read; one in the state directory is left alone then, and logged.
    """
    named = context.settings.model.calibration
    path = named if named is not None else _own(state_dir or default_state_dir(os.environ), context.fs)
    if path is None:
        return context
    try:
        found = read_calibration(path)
    except SourceError as error:
        if named is not None:
            raise ConfigError(f"meters.model.calibration: {error}") from None
        log.warning("calibration cannot be used", error=str(error))
        return context
    misfit = found.misfit(*machine_of(context))
    if misfit:
        log.warning("calibration is of another machine", file=str(path), reason=misfit)
        return context
    return replace(context, calibration=found)


def read_calibration(path: Path) -> Calibration:
    """Return what a file says. Raises SourceError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise SourceError(f"{path}: expected at most {LARGEST_BYTES} bytes")
    try:
        return parse_calibration(data.decode(), str(path))
    except UnicodeDecodeError:
        raise SourceError(f"{path}: expected JSON in UTF-8") from None


def machine_of(context: MeterContext) -> tuple[str, int, int]:
    """Return processor, sockets and online CPUs: what a calibration is of."""
    sockets = set(context.socket_of_cpu.values())
    return context.cpu_model or context.cpu.code, len(sockets), len(context.socket_of_cpu)


def _own(state_dir: Path, host: HostFS) -> Path | None:
    """Return the state directory's file where there is one; a recorded host's is not ours."""
    if host.is_recorded:
        return None
    path = state_dir / FILE_NAME
    return path if path.exists() else None
