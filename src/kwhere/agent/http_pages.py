"""The pages of the agent: metrics, ledger, health, landing. Each is computed in a worker thread."""

import html
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from kwhere.agent.anonymous import HeldSamples, NameRemover
from kwhere.agent.health import Health
from kwhere.agent.http_access import Right
from kwhere.agent.http_messages import Answer, Request, compressed, json_answer, problem
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import Clock
from kwhere.core.errors import JournalError, NotFound, WireError
from kwhere.exposition.negotiation import choose_format
from kwhere.exposition.text import Renderer
from kwhere.ledger.journal import Journal
from kwhere.ledger.wire import encode_page, parse_cursor

DEFAULT_SLOTS = 100
MAX_SLOTS = 1000

_LANDING = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>kwhere agent</title>
<h1>kwhere agent</h1>
<p>Version {version}. Accounts this node's energy to the units that cause it.</p>
<ul>
<li><a href="/metrics">/metrics</a>: what a Prometheus scrapes</li>
<li><a href="/healthz">/healthz</a>: whether the agent does its work</li>
<li>/ledger: the account, for a kwhere server with a certificate or the token</li>
</ul>
<p>Collectors, as <code>/metrics?collect[]=NAME</code>: {collectors}.</p>
</html>
"""


@dataclass(frozen=True, slots=True)
class HttpParts:
    """What the pages are made from."""

    runner: CollectorRunner
    journal: Journal | None
    health: Callable[[], Health]
    clock: Clock
    version: str
    ledger_token: str | None
    """Opens the ledger; None: only client certificates do."""


class Pages:
    """Answers of the agent, apart from who may have them."""

    def __init__(self, parts: HttpParts, *, anonymous_names: bool) -> None:
        self._parts = parts
        self._anonymous_names = anonymous_names
        self._held = HeldSamples(parts.runner, parts.clock)
        # the token's bytes make pseudonyms that outlive a restart
        self._names = NameRemover(parts.ledger_token.encode() if parts.ledger_token else secrets.token_bytes(32))
        self._renderer = Renderer()
        self._render_lock = threading.Lock()

    def metrics(self, request: Request, right: Right) -> Answer:
        """Return the samples of all collectors, or of those in `collect[]`."""
        try:
            names = set(request.query().get("collect[]", ()))
            samples = self._parts.runner.collect(names) if right.is_authenticated else self._held.collect(names)
        except (NotFound, ValueError) as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        if not (right.is_authenticated or self._anonymous_names):
            samples = self._names.without_names(samples)
        text_format = choose_format(request.header("accept"))
        with self._render_lock:
            body = self._renderer.render(samples, text_format)
        return compressed(Answer(HTTPStatus.OK, body, text_format.value), request.header("accept-encoding"))

    def ledger(self, request: Request) -> Answer:
        """Return the page of slots after the cursor `after`."""
        journal = self._parts.journal
        if journal is None:
            return problem(HTTPStatus.NOT_FOUND, "this agent keeps no journal")
        try:
            query = request.query()
            after = parse_cursor(_single(query, "after")) if "after" in query else None
            limit = _limit(query)
        except (WireError, ValueError) as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        try:
            page = journal.read(after, limit)
            if after is not None:
                journal.pulled(after)
        except NotFound as error:
            return _gone(journal, str(error))
        except WireError as error:
            return problem(HTTPStatus.CONFLICT, str(error))
        except JournalError as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the journal cannot be read", cause=error.cause)
        answer = Answer(HTTPStatus.OK, encode_page(page.header, page.lines), "application/x-ndjson")
        return compressed(answer, request.header("accept-encoding"))

    def healthz(self) -> Answer:
        """Return 200 and facts, or 503 and the reasons."""
        health = self._parts.health()
        status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
        record = {"status": "ok" if health.ok else "failing", "reasons": list(health.reasons), **health.facts}
        return json_answer(status, record)

    def landing(self) -> Answer:
        """Return a page that says where to go."""
        text = _LANDING.format(
            version=html.escape(self._parts.version), collectors=html.escape(", ".join(self._parts.runner.names))
        )
        return Answer(HTTPStatus.OK, text.encode(), "text/html; charset=utf-8")


def _gone(journal: Journal, detail: str) -> Answer:
    """The reader starts again before the oldest slot held, and records what it missed."""
    try:
        header = journal.read(None, 1).header
    except JournalError as error:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the journal cannot be read", cause=error.cause)
    oldest = f"{header.epoch}:{(header.oldest or 1) - 1}"
    return problem(HTTPStatus.GONE, detail, oldest=oldest, epochs=list(header.epochs))


def _single(query: dict[str, list[str]], name: str) -> str:
    values = query[name]
    if len(values) != 1:
        raise ValueError(f"{name}: expected once, found {len(values)} times")
    return values[0]


def _limit(query: dict[str, list[str]]) -> int:
    if "limit" not in query:
        return DEFAULT_SLOTS
    text = _single(query, "limit")
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0):
        raise ValueError(f"limit: expected a number of slots from 1, found {text[:40]!r}")
    return min(int(text), MAX_SLOTS)
