"""The agent's unix socket for `kwhere run`, `top` and `doctor`: one JSON object per line each way.

    {"get": "hello"}                                  → {"ok": true, "version", "node", "interval_seconds", …}
    {"get": "top"}                                    → {"ok": true, "units": […], "system", "unallocated", "node", …}
    {"get": "unit", "manager": "run", "unit": "…"}    → {"ok": true, "runs": […]}
    {"get": "meters"}                                 → {"ok": true, "sources": {name: {"up", "reason"}}, "methods"}
    {"get": "step"}                                   → {"ok": true, "done": …} once a step out of turn is done
    {"get": "gpu"}                                    → {"ok": true, "released", "left_seconds", "vendors": […]}
    {"do": "gpu_release"}, {"do": "gpu_acquire"}      → {"ok": true, "done": …, …}; root and the agent's user alone

What cannot be answered is `{"ok": false, "error": "…"}`. The kernel says who asks (SO_PEERCRED, unix(7)): a caller sees
own units only, and energy that moves once a second at most; root and the agent's own user see all, as it is.
"""

import asyncio
import contextlib
import json
import os
import socket
import stat
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from kwhere.agent.gpu_release import GpuRelease
from kwhere.agent.local_gpu import gpu_view
from kwhere.agent.local_view import Viewer, meters_view, top_view, units_of
from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.sampling.totals import Totals

SOCKET_NAME = "agent.sock"
MAX_QUESTION_BYTES = 64 * 1024
MAX_CONNECTIONS = 64
_IDLE_SECONDS = 600.0
_ANSWER_SECONDS = 10.0
_START_SECONDS = 5.0
_LISTEN_BACKLOG = 32
_CREDENTIALS = struct.Struct("3i")
"""struct ucred: pid, uid, gid."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LocalFacts:
    """What `hello` says of the agent."""

    version: str
    node: str
    interval_seconds: float
    slot_seconds: float


class LocalSocket:
    """Serves from `start` to `stop`, in a thread of its own. A socket that cannot be made never stops the agent."""

    def __init__(
        self,
        path: Path,
        facts: LocalFacts,
        totals: Callable[[], Totals | None],
        clock: Clock,
        step_now: Callable[[], bool] | None = None,
        gpus: GpuRelease | None = None,
    ) -> None:
        """`step_now` does a step out of turn and returns whether it is done; it may take half a second."""
        self.path = path
        self._answers = LocalAnswers(facts, totals, clock, step_now, gpus)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._ready = threading.Event()
        self._connections: set[asyncio.StreamWriter] = set()

    def start(self) -> None:
        """Listen and serve; where that is not possible, say so and leave it."""
        try:
            self._socket = _listening(self.path)
        except OSError as error:
            log.warning("local socket cannot be made, run and top do without", path=str(self.path), error=str(error))
            return
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="local socket", daemon=True)
        self._thread.start()
        self._ready.wait(_START_SECONDS)

    def stop(self) -> None:
        """Hang up and remove the socket."""
        if self._thread is None:
            return
        if self._loop is not None and self._over is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(1.0)
        self._thread = None
        self.path.unlink(missing_ok=True)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        # not start_unix_server: since 3.13 that looks for the path it was bound to, a descriptor closed long ago
        server = await asyncio.start_server(self._converse, sock=self._socket, limit=MAX_QUESTION_BYTES)
        self._ready.set()
        await self._over.wait()
        server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        # transports close in the loop's next turns
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                await _say(writer, _refusal("too many callers"))
            else:
                await self._answer_all(reader, writer, viewer_of(writer.get_extra_info("socket")))
        except (OSError, TimeoutError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, viewer: Viewer) -> None:
        while True:
            try:
                line = await asyncio.wait_for(reader.readline(), _IDLE_SECONDS)
            except ValueError:
                await _say(writer, _refusal(f"expected a line of at most {MAX_QUESTION_BYTES} bytes"))
                return
            if not line.endswith(b"\n"):
                return
            await _say(writer, await asyncio.to_thread(self._answers.answer, line, viewer))


class LocalAnswers:
    """The answers, apart from the socket that carries them."""

    def __init__(
        self,
        facts: LocalFacts,
        totals: Callable[[], Totals | None],
        clock: Clock,
        step_now: Callable[[], bool] | None = None,
        gpus: GpuRelease | None = None,
    ) -> None:
        self._step_now = step_now
        self._gpus = gpus
        self._facts = facts
        self._totals = totals
        self._clock = clock
        self._held: Totals | None = None
        self._held_ns = 0

    def answer(self, line: bytes, viewer: Viewer) -> dict[str, object]:
        """Return the answer to one line."""
        try:
            question = json.loads(line)
        except (ValueError, RecursionError):
            return _refusal("expected a JSON object")
        if not isinstance(question, dict):
            return _refusal("expected a JSON object")
        match question:
            case {"get": "hello"}:
                return self._hello(viewer)
            case {"get": "top"}:
                totals = self._seen(viewer)
                return {"ok": True, **top_view(totals, viewer)} if totals else _refusal("no step was done yet")
            case {"get": "meters"}:
                totals = self._seen(viewer)
                return {"ok": True, **meters_view(totals)} if totals else _refusal("no step was done yet")
            case {"get": "unit", "manager": str(manager), "unit": str(unit)}:
                totals = self._seen(viewer)
                return {"ok": True, "runs": units_of(totals, viewer, manager, unit) if totals else []}
            case {"get": "step"}:
                return {"ok": True, "done": self._step_now is not None and self._step_now()}
            case {"get": "gpu"} | {"do": "gpu_release" | "gpu_acquire"}:
                return self._gpu(question.get("do", ""), viewer)
        return _refusal(
            'expected {"get": "hello"}, "top", "meters", "step", "gpu", {"get": "unit", "manager": …, "unit": …}'
            ' or {"do": "gpu_release"}, "gpu_acquire"'
        )

    def _gpu(self, order: str, viewer: Viewer) -> dict[str, object]:
        if self._gpus is None or not self._gpus.gpus:
            return _refusal("no GPU is read here")
        if not order:
            return {"ok": True, **gpu_view(self._gpus)}
        if not viewer.sees_all:
            return _refusal("only root and the agent's own user may do this")
        if order == "gpu_release":
            done = self._gpus.release(uid=viewer.uid)
        else:
            self._gpus.acquire()
            done = True
        return {"ok": True, "done": done, **gpu_view(self._gpus)}

    def _hello(self, viewer: Viewer) -> dict[str, object]:
        return {
            "ok": True,
            "version": self._facts.version,
            "node": self._facts.node,
            "interval_seconds": self._facts.interval_seconds,
            "slot_seconds": self._facts.slot_seconds,
            "uid": viewer.uid,
            "sees_all": viewer.sees_all,
        }

    def _seen(self, viewer: Viewer) -> Totals | None:
        """Energy that moves fast gives secrets away across users (CVE-2020-8694): others see each second's first."""
        if viewer.sees_all:
            return self._totals()
        now_ns = self._clock.monotonic_ns()
        if self._held is None or now_ns - self._held_ns >= NANOSECONDS_PER_SECOND:
            self._held, self._held_ns = self._totals(), now_ns
        return self._held


def viewer_of(connection: socket.socket) -> Viewer:
    """Return who is at the other end of a unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return Viewer(uid, sees_all=uid in (0, os.geteuid()))


async def _say(writer: asyncio.StreamWriter, answer: dict[str, object]) -> None:
    writer.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    await asyncio.wait_for(writer.drain(), _ANSWER_SECONDS)


def _refusal(error: str) -> dict[str, object]:
    return {"ok": False, "error": error}


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at `path`, open to every user; what a dead agent left there is removed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # by the directory's descriptor: a socket's path holds 107 bytes, a state directory's may be longer
        listening.bind(f"/proc/self/fd/{directory}/{path.name}")
        path.chmod(0o666)
        listening.listen(_LISTEN_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(directory)
    return listening
