"""One hypervisor, asked by `virsh` on a connection for reading: two questions, however many machines it has."""

import re
import secrets
from collections.abc import Iterator, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.resource_managers.libvirt_domains import Domain, HostSays, read_node_facts
from kwhere.resource_managers.libvirt_settings import LibvirtSettings
from kwhere.transport.commands import run_command

_MOST_BYTES = 256 * 1024 * 1024
_AT_ONCE = 200
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LibvirtHost:
    """Asks one host; a machine that goes away between the two questions is passed over."""

    def __init__(self, node: str, uri: str, settings: LibvirtSettings) -> None:
        self.node = node
        self._argv = (*settings.command, "-q", "-r", "-c", uri)
        self._timeout_seconds = settings.command_timeout_seconds

    def ask(self) -> HostSays:
        """Return all domains, running or defined, and the host's size. Raises Unavailable and SourceError."""
        facts_text, uuids_text = self._answers(["nodeinfo", "list --all --uuid"])
        facts = read_node_facts(facts_text)
        uuids = [word.lower() for word in uuids_text.split()]
        wrong = next((word for word in uuids if _UUID.fullmatch(word) is None), None)
        if wrong is not None:
            raise SourceError(f"{self.node}: virsh list: expected UUIDs, found {wrong[:60]!r}")
        domains = tuple(
            domain for at in range(0, len(uuids), _AT_ONCE) for domain in self._domains(uuids[at:][:_AT_ONCE])
        )
        return HostSays(tuple(uuids), domains, facts.get("CPU(s)"), facts.get("Memory size"))

    def _domains(self, uuids: Sequence[str]) -> Iterator[Domain]:
        questions = [f"{command} {uuid}" for uuid in uuids for command in ("dumpxml", "domstate")]
        answers = self._answers(questions)
        for xml, state in zip(answers[::2], answers[1::2], strict=True):
            if xml and state:
                yield Domain(xml, state.lower())

    def _answers(self, questions: Sequence[str]) -> list[str]:
        """Return what virsh says to each question, "" where it has no answer to one."""
        # Whoever writes a machine's description cannot know the mark.
        mark = f"={secrets.token_hex(16)}="
        commands = "; ".join(f"echo {mark}; {question}" for question in questions)
        done = run_command(
            (*self._argv, commands),
            timeout_seconds=self._timeout_seconds,
            max_output_bytes=_MOST_BYTES,
            environment={"LC_ALL": "C.UTF-8"},
        )
        if done.timed_out:
            raise Unavailable("timeout", f"{self.node}: virsh: no answer within {self._timeout_seconds:g} s")
        _, *parts = done.stdout.decode("utf-8", "replace").split(mark)
        if len(parts) != len(questions):
            said = done.stderr.decode(errors="replace").strip().splitlines()
            detail = said[0][:300] if said else f"exit code {done.exit_code}"
            raise Unavailable("remote", f"{self.node}: virsh: {detail}")
        return [part.strip() for part in parts]
