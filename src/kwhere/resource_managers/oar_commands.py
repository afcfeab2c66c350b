"""OAR by its commands on this machine: `oarstat -J -f --sql` and `oarnodes -J`."""

from collections.abc import Iterator, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.resource_managers.oar_fields import decode
from kwhere.resource_managers.oar_queue import LIVE_STATES
from kwhere.resource_managers.oar_settings import OarSettings
from kwhere.transport.commands import run_command

_MOST_BYTES = 512 * 1024 * 1024


class CommandSource:
    """Asks the commands; times go in and out in epoch seconds, so no zone matters."""

    tells_all_in_hand = True

    def __init__(self, settings: OarSettings) -> None:
        self._prefix = tuple(settings.command_prefix)
        self._timeout_seconds = settings.command_timeout_seconds

    def jobs(self, span: Span) -> Iterator[tuple[object, str]]:
        """Yield the jobs that lived within `span`, and where they come from."""
        start, end = int(span.start.timestamp()), int(span.end.timestamp()) + 1
        # `--gantt` reads its dates in the frontend's own zone and makes up the end of jobs that run.
        clause = f"start_time > 0 AND start_time < {end} AND (stop_time = 0 OR stop_time >= {start})"
        yield self._ask(("oarstat", "-J", "-f", "--sql", clause))

    def in_hand(self) -> Iterator[tuple[object, str]]:
        """Yield the jobs that wait or live now, and where they come from."""
        states = ", ".join(f"'{state}'" for state in LIVE_STATES)
        yield self._ask(("oarstat", "-J", "-f", "--sql", f"state IN ({states})"))

    def resources(self) -> Iterator[tuple[object, str]]:
        """Yield all resources, and where they come from."""
        yield self._ask(("oarnodes", "-J"))

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, words: Sequence[str]) -> tuple[object, str]:
        place = " ".join(words[:2])
        finished = run_command(
            (*self._prefix, *words), timeout_seconds=self._timeout_seconds, max_output_bytes=_MOST_BYTES
        )
        if finished.timed_out:
            raise Unavailable("timeout", f"{place}: no end within {self._timeout_seconds:g} s")
        said = finished.stderr.decode(errors="replace").strip()
        first_line = said.splitlines()[0][:200] if said else f"exit code {finished.exit_code}"
        if finished.exit_code != 0:
            raise Unavailable("remote", f"{place}: {first_line}")
        if not finished.stdout.strip():
            # OAR 2 prints nothing where there is nothing, and also, with exit code 0, where its database fails.
            if said:
                raise Unavailable("remote", f"{place}: {first_line}")
            return {}, place
        try:
            return decode(finished.stdout, place), place
        except SourceError as error:
            raise SourceError(f"{error}; {first_line}" if said else str(error)) from error
