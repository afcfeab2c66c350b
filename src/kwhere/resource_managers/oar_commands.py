"""OAR by its commands on this machine: `oarstat -J -f --sql` and `oarnodes -J`."""

import re
from collections.abc import Iterator, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.resource_managers.oar_fields import decode
from kwhere.resource_managers.oar_queue import LIVE_STATES
from kwhere.resource_managers.oar_settings import OarSettings
from kwhere.transport.commands import run_command

_MOST_BYTES = 512 * 1024 * 1024
_VERSION = re.compile(r"OAR version\s*:\s*([0-9]{1,3})")
_ANY_TIME = "1970-01-02 00:00:00, 2037-12-31 00:00:00"
"""Of OAR 3: without it, jobs that are over are left out whatever the clause says (oar/lib/basequery.py)."""
_WITH_WORDS = 3


class CommandSource:
    """Asks the commands; times go in and out in epoch seconds, so no zone matters."""

    tells_all_in_hand = True

    def __init__(self, settings: OarSettings) -> None:
        self._prefix = tuple(settings.command_prefix)
        self._timeout_seconds = settings.command_timeout_seconds
        self._major: int | None = None

    def jobs(self, span: Span) -> Iterator[tuple[object, str]]:
        """Yield the jobs that lived within `span`, and where they come from."""
        start, end = int(span.start.timestamp()), int(span.end.timestamp()) + 1
        # OAR 3 joins a table with another start_time: names need their table.
        clause = f"jobs.start_time > 0 AND jobs.start_time < {end}"
        clause += f" AND (jobs.stop_time = 0 OR jobs.stop_time >= {start})"
        # Of OAR 2, `--gantt` reads its dates in the frontend's own zone and makes up the end of jobs that run.
        span_words = ("--gantt", _ANY_TIME) if self._known_major() >= _WITH_WORDS else ()
        yield self._ask(("oarstat", "-J", "-f", *span_words, "--sql", clause))

    def in_hand(self) -> Iterator[tuple[object, str]]:
        """Yield the jobs that wait or live now, and where they come from."""
        states = ", ".join(f"'{state}'" for state in LIVE_STATES)
        yield self._ask(("oarstat", "-J", "-f", "--sql", f"jobs.state IN ({states})"))

    def resources(self) -> Iterator[tuple[object, str]]:
        """Yield all resources, and where they come from."""
        yield self._ask(("oarnodes", "-J"))

    def close(self) -> None:
        """Nothing is held."""

    def _known_major(self) -> int:
        """Return 2 for OAR 2, 3 for OAR 3; 2 where it does not say."""
        if self._major is None:
            said, _ = self._run(("oarstat", "-V"))
            found = _VERSION.search(said.decode(errors="replace"))
            self._major = int(found[1]) if found is not None else 2
        return self._major

    def _ask(self, words: Sequence[str]) -> tuple[object, str]:
        place = " ".join(words[:2])
        answer, first_line = self._run(words)
        if not answer.strip():
            # OAR 2 prints nothing where there is nothing, and also, with exit code 0, where its database fails.
            if first_line:
                raise Unavailable("remote", f"{place}: {first_line}")
            return {}, place
        try:
            return decode(answer, place), place
        except SourceError as error:
            raise SourceError(f"{error}; {first_line}" if first_line else str(error)) from error

    def _run(self, words: Sequence[str]) -> tuple[bytes, str]:
        """Return what a command printed, and the first line of what it complained of."""
        place = " ".join(words[:2])
        finished = run_command(
            (*self._prefix, *words), timeout_seconds=self._timeout_seconds, max_output_bytes=_MOST_BYTES
        )
        if finished.timed_out:
            raise Unavailable("timeout", f"{place}: no end within {self._timeout_seconds:g} s")
        said = finished.stderr.decode(errors="replace").strip()
        first_line = said.splitlines()[0][:200] if said else ""
        if finished.exit_code != 0:
            raise Unavailable("remote", f"{place}: {first_line or f'exit code {finished.exit_code}'}")
        return finished.stdout, first_line
