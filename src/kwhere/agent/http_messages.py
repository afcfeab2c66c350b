"""Requests and answers of the agent's HTTP face, apart from the server that carries them."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

from kwhere.exposition.negotiation import accepts_gzip

_MIN_GZIP_BYTES = 1024
_GZIP_LEVEL = 1
_MAX_QUERY_FIELDS = 200


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, as the transport knows it."""

    is_tls: bool = False
    is_local: bool = False
    """Loopback or a unix socket."""
    is_certified: bool = False
    """Showed a client certificate that the configured authority signed and whose name is allowed."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are lower-case, repeated headers are joined by commas."""

    method: str
    path: str
    query_string: str
    headers: Mapping[str, str]
    peer: Peer
    raw_path: bytes = b""
    """The path as it came, not decoded."""
    body: bytes = b""
    """Read only where an application asks for it."""

    def header(self, name: str) -> str:
        """Return a header's value, "" without it."""
        return self.headers.get(name, "")

    def query(self) -> dict[str, list[str]]:
        """Return the query's fields. Raises ValueError where there are absurdly many."""
        return parse_qs(self.query_string, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and what it is."""

    status: HTTPStatus
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = field(default=())


def problem(status: HTTPStatus, detail: str, *headers: tuple[str, str], **more: object) -> Answer:
    """Return an error as RFC 9457 has it; `more` are further members."""
    record = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **more}
    return Answer(status, json.dumps(record).encode() + b"\n", "application/problem+json", headers)


def json_answer(status: HTTPStatus, record: Mapping[str, object]) -> Answer:
    """Return a JSON object."""
    return Answer(status, json.dumps(record, allow_nan=False).encode() + b"\n", "application/json")


def compressed(answer: Answer, accept_encoding: str) -> Answer:
    """Return the answer with its body in gzip where that is accepted and worth it."""
    headers = (*answer.headers, ("vary", "accept, accept-encoding"))
    if len(answer.body) < _MIN_GZIP_BYTES or not accepts_gzip(accept_encoding):
        return Answer(answer.status, answer.body, answer.content_type, headers)
    body = gzip.compress(answer.body, _GZIP_LEVEL, mtime=0)
    return Answer(answer.status, body, answer.content_type, (*headers, ("content-encoding", "gzip")))
