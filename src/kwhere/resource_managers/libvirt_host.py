"""One hypervisor, asked by `virsh` on a connection for reading: two questions, however many machines it has.

Its devices are asked for once, and again when there are others.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.resource_managers.libvirt_devices import NodeGpu, device_names, parse_node_device
from kwhere.resource_managers.libvirt_domains import Domain, HostSays, read_node_facts
from kwhere.resource_managers.libvirt_settings import LibvirtSettings
from kwhere.transport.commands import run_command

_MOST_BYTES = 256 * 1024 * 1024
_AT_ONCE = 200
_MOST_DEVICES = 4000
_MOST_WORDS = 300
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LibvirtHost:
    """Asks one host; a machine that goes away between the two questions is passed over."""

    def __init__(self, node: str, uri: str, settings: LibvirtSettings) -> None:
        self.node = node
        self._argv = (*settings.command, "-q", "-r", "-c", uri)
        self._timeout_seconds = settings.command_timeout_seconds
        self._devices: dict[str, NodeGpu | None] = {}

    def ask(self) -> HostSays:
        """Return all domains, running or defined, and the host's size. Raises Unavailable and SourceError."""
        facts_text, uuids_text, *devices = self._answers(
            ["nodeinfo", "list --all --uuid", "nodedev-list --cap pci", "nodedev-list --cap mdev"]
        )
        facts = read_node_facts(facts_text)
        uuids = [word.lower() for word in uuids_text.split()]
        wrong = next((word for word in uuids if _UUID.fullmatch(word) is None), None)
        if wrong is not None:
            raise SourceError(f"{self.node}: virsh list: expected UUIDs, found {wrong[:60]!r}")
        domains = tuple(
            domain for at in range(0, len(uuids), _AT_ONCE) for domain in self._domains(uuids[at:][:_AT_ONCE])
        )
        gpus = self._gpus(device_names(" ".join(devices).split())[:_MOST_DEVICES])
        return HostSays(tuple(uuids), domains, facts.get("CPU(s)"), facts.get("Memory size"), gpus)

    def _gpus(self, names: Sequence[str]) -> Mapping[str, NodeGpu]:
        """Return those devices that are GPUs; a host whose libvirt lists no devices has none that we know of."""
        new = [name for name in names if name not in self._devices]
        for at in range(0, len(new), _AT_ONCE):
            part = new[at:][:_AT_ONCE]
            texts = self._answers([f"nodedev-dumpxml {name}" for name in part])
            self._devices |= {name: parse_node_device(text) for name, text in zip(part, texts, strict=True) if text}
        self._devices = {name: self._devices[name] for name in names if name in self._devices}
        return {name: gpu for name, gpu in self._devices.items() if gpu is not None}

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
            # The first line says that it failed, the next ones why.
            said = done.stderr.decode(errors="replace").split("\n")
            words = ": ".join(line.strip().removeprefix("error: ") for line in said if line.strip())
            detail = words[:_MOST_WORDS] or f"exit code {done.exit_code}"
            raise Unavailable("remote", f"{self.node}: virsh: {detail}")
        return [part.strip() for part in parts]
