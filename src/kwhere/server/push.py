"""Pages that agents send: checked, booked like pulled ones, answered with where to go on."""

from dataclasses import dataclass

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from kwhere.core.clock import Clock
from kwhere.core.errors import IntakeRefused, SourceError, Unavailable, WireError
from kwhere.core.failure_memory import FailureMemory
from kwhere.database import cursors
from kwhere.database.engine import writing
from kwhere.ledger.columns import ColumnPage, decode_column_page
from kwhere.ledger.pages import Cursor
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.push_grants import PushGrants
from kwhere.server.target import Target
from kwhere.transport.answers import BoundedBody

MAX_PAGE_BYTES = 64 << 20
_NEVER_NS = 2**63

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PushRequest:
    """One page as it arrived."""

    authorization: str
    encoding: str
    clock_text: str
    """The agent's UTC nanoseconds, as text; "" where it did not say."""
    body: bytes


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """Status and the members of a JSON object: `after`, or a problem's `detail`."""

    status: int
    after: Cursor | None = None
    detail: str = ""


UNKNOWN = PushAnswer(401, detail="a token of a push group is needed here")


class PushReceiver:
    """Takes pages in; may be called from several threads."""

    def __init__(self, engine: Engine, booker: PageBooker, grants: PushGrants, clock: Clock) -> None:
        self._engine = engine
        self._booker = booker
        self._grants = grants
        self._clock = clock
        self._failures = FailureMemory()

    def knows(self, authorization: str) -> bool:
        """Return whether the header carries a token: nothing is read of whoever has none."""
        return self._grants.grant_of(authorization) is not None

    def receive(self, request: PushRequest) -> PushAnswer:
        """Return where the agent is to go on, or why its page is not taken."""
        grant = self._grants.grant_of(request.authorization)
        if grant is None:
            return UNKNOWN
        try:
            page = decode_column_page(_unpacked(request))
        except (WireError, SourceError) as error:
            return PushAnswer(400, detail=str(error))
        node = page.header.node
        if grant.node is not None and grant.node != node:
            return PushAnswer(403, detail=f"this token is for node {grant.node}, the page is of {node}")
        target = grant.target_of(node)
        try:
            after = self._book(target, page, request.clock_text)
        except IntakeRefused as error:
            self._tell(target.key, str(error))
            return PushAnswer(409, detail=str(error))
        except OperationalError as error:
            self._tell(target.key, str(error.orig))
            return PushAnswer(503, detail="the database does not answer")
        except Unavailable as error:
            self._tell(target.key, str(error))
            return PushAnswer(503, detail="the database does not answer")
        self._failures.recovered(target.key)
        return PushAnswer(200, after=after)

    def _book(self, target: Target, page: ColumnPage, clock_text: str) -> Cursor | None:
        now_ns = self._clock.utc_ns()
        held = self._held(target)
        if not page.lines and page.header.newest is None:
            return held
        if held is not None and held.epoch not in page.header.epochs:
            self._finish_lost(held, now_ns)
            held = None
        offset_ns = int(clock_text) - now_ns if clock_text.isascii() and clock_text.isdecimal() else None
        outcome = self._booker.book(Received(target, page, now_ns, offset_ns))
        return outcome.after if page.lines or held is None else held

    def _held(self, target: Target) -> Cursor | None:
        with self._engine.connect() as connection:
            row = cursors.find_target(connection, target.key)
        return None if row is None else row.cursor

    def _finish_lost(self, held: Cursor, now_ns: int) -> None:
        """The agent no longer holds the epoch we stand in: whatever was left of it is lost."""
        with writing(self._engine).begin() as connection:
            row = cursors.find_epoch(connection, held.epoch)
            if row is not None and not row.finished:
                cursors.record_lost(connection, row, None, None, now_ns)
                cursors.finish(connection, row.epoch)
                log.error("slots lost", epoch=held.epoch, after=held.seq)

    def _tell(self, target: str, fault: str) -> None:
        times = self._failures.failed(target, fault, self._clock.monotonic_ns())
        if times is not None:
            log.warning("pushed page not taken", target=target, fault=fault, times=times)


def _unpacked(request: PushRequest) -> bytes:
    body = BoundedBody(
        place="ledger",
        encoding=request.encoding,
        max_bytes=MAX_PAGE_BYTES,
        deadline_ns=_NEVER_NS,
        monotonic_ns=lambda: 0,
    )
    body.feed(request.body)
    return body.finish()
