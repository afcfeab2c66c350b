"""HTTP clients with limits: every answer is bounded in time and size, and credentials stay with their host."""

import logging
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.answers import BoundedBody
from kwhere.transport.credentials import build_tls_context, check_base_url, read_token
from kwhere.transport.settings import HttpClientSettings

DEFAULTS = HttpClientSettings()
MAX_REDIRECTS = 3
_BEGINNING_BYTES = 4096
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.TimeoutException, "timeout"),
    (httpx.ConnectError, "refused"),
    (httpx.RemoteProtocolError, "closed"),
    (httpx.ReadError, "closed"),
    (httpx.WriteError, "closed"),
    (httpx.HTTPError, "network"),
)


class _WithoutQuery(logging.Filter):
    """Takes the query off addresses that httpx logs: it may hold what must not be logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(arg.copy_with(query=None) if isinstance(arg, httpx.URL) else arg for arg in record.args)
        return True


logging.getLogger("httpx").addFilter(_WithoutQuery())
logging.getLogger("httpcore").setLevel(logging.INFO)  # its traces show headers: cookies, redirects with their query


@dataclass(frozen=True, slots=True)
class Answer:
    """What a remote said. Every status is an answer: the caller judges it. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_seconds: float

    @property
    def text(self) -> str:
        """Return the body as UTF-8; bytes that are not become U+FFFD."""
        return self.body.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    url: httpx.URL
    headers: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    content: bytes | None = None
    timeout_seconds: float | None = None


class _Remote:
    """The address, the limits, and how httpx is to be built."""

    def __init__(
        self,
        base_url: str,
        settings: HttpClientSettings,
        token: str | None,
        unix_socket: str | None,
        monotonic_ns: Callable[[], int],
        tls: ssl.SSLContext | None,
    ) -> None:
        secret = token if token is not None else read_token(settings)
        self.base = check_base_url(base_url, bearer=secret is not None)
        self.settings = settings
        self.unix_socket = unix_socket
        self.monotonic_ns = monotonic_ns
        self.verify = build_tls_context(settings) if tls is None else tls
        self.headers = {"Accept-Encoding": "gzip", "User-Agent": "kwhere"}
        if secret is not None:
            self.headers["Authorization"] = f"Bearer {secret}"
        self.timeout = httpx.Timeout(settings.read_timeout_seconds, connect=settings.connect_timeout_seconds)

    def question(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        form: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_seconds: float | None = None,
    ) -> _Question:
        if path and not path.startswith("/"):
            raise ValueError(f"path {path!r}: expected one that starts with /")
        url = self.base
        if path:
            url = url.copy_with(raw_path=self.base.raw_path.rstrip(b"/") + path.encode())
        if params:
            url = url.copy_merge_params(dict(params))
        return _Question(method, url, headers, form, content, timeout_seconds)

    def extensions(self) -> dict[str, object]:
        return {"sni_hostname": self.settings.server_name} if self.settings.server_name else {}

    def limits(self, question: _Question) -> httpx.Timeout:
        """Return the limits of one request: the settings', or less where the question has less time."""
        most = question.timeout_seconds
        if most is None:
            return self.timeout
        settings = self.settings
        return httpx.Timeout(
            min(most, settings.read_timeout_seconds), connect=min(most, settings.connect_timeout_seconds)
        )

    def body(self, question: _Question, answer: httpx.Response) -> BoundedBody:
        seconds = min(question.timeout_seconds or math.inf, self.settings.total_timeout_seconds)
        deadline_ns = self.monotonic_ns() + int(seconds * 1e9)
        return BoundedBody(
            place=self.place(answer.request.url),
            encoding=answer.headers.get("content-encoding", ""),
            max_bytes=self.settings.max_answer_bytes,
            deadline_ns=deadline_ns,
            monotonic_ns=self.monotonic_ns,
        )

    def redirected(self, question: _Question, answer: httpx.Response) -> _Question | None:
        """Return the question to ask instead; None where this is the answer. Never leaves the host."""
        if answer.status_code not in _REDIRECTS or question.method != "GET" or "location" not in answer.headers:
            return None
        try:
            target = question.url.join(answer.headers["location"])
        except (httpx.InvalidURL, ValueError) as error:
            raise SourceError(f"{self.place(question.url)}: redirects to no address") from error
        if (target.scheme, target.host, target.port) != (self.base.scheme, self.base.host, self.base.port):
            raise SourceError(f"{self.place(question.url)}: redirects to another host, {target.host}; not followed")
        return _Question("GET", target, question.headers, timeout_seconds=question.timeout_seconds)

    def place(self, url: httpx.URL) -> str:
        """Return the address for messages, without its query: a query may hold what must not be logged."""
        return str(url.copy_with(query=None))

    def failure(self, question: _Question, error: Exception) -> Unavailable:
        reason = next((word for kind, word in _REASONS if isinstance(error, kind)), "network")
        if any(isinstance(cause, ssl.SSLError) for cause in _causes(error)) or "[SSL" in str(error):
            reason = "tls"
        elif "name resolution" in str(error) or "Name or service not known" in str(error):
            reason = "dns"
        return Unavailable(reason, f"{self.place(question.url)}: {str(error) or type(error).__name__}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class Stream:
    """An answer that is read line by line as it comes; its headers are in, its body is not."""

    def __init__(
        self, status: int, headers: Mapping[str, str], chunks: Iterator[bytes], place: str, max_line_bytes: int
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._place = place
        self._max_line_bytes = max_line_bytes

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines without their ends; what an answer that is cut off leaves of a line is not one.

        Raises Unavailable where it is cut off or too late, SourceError for a line that is too long.
        """
        rest = b""
        for chunk in self._chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line for line in whole if line.strip())
            if len(rest) > self._max_line_bytes:
                raise SourceError(f"{self._place}: expected lines of at most {self._max_line_bytes} bytes, found more")

    def beginning(self) -> bytes:
        """Return what comes first, some thousands of bytes: enough for the words of a refusal."""
        found = b""
        for chunk in self._chunks:
            found += chunk
            if len(found) >= _BEGINNING_BYTES:
                break
        return found


class HttpClient:
    """A synchronous client of one remote; safe to share between threads. Retries are the caller's.

    Raises ConfigError when built with unreadable files, with a user or password in the address, or with a token for
    plain HTTP off loopback. Requests raise Unavailable (refused, timeout, dns, tls, closed, network) and SourceError.
    """

    def __init__(
        self,
        base_url: str,
        settings: HttpClientSettings | None = None,
        *,
        token: str | None = None,
        unix_socket: str | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` stands in for the trust that the settings describe."""
        self._remote = _Remote(base_url, settings or DEFAULTS, token, unix_socket, monotonic_ns, tls)
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(
                verify=self._remote.verify, uds=unix_socket, proxy=self._remote.settings.proxy_url, trust_env=False
            ),
            headers=self._remote.headers,
            timeout=self._remote.timeout,
            trust_env=False,
        )

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float | None = None,
        follow_redirects: bool = True,
    ) -> Answer:
        """Return the answer to a GET of `path` below the base address, within `timeout_seconds` if that is less."""
        question: _Question | None = self._remote.question(
            "GET", path, params, headers, timeout_seconds=timeout_seconds
        )
        for _ in range(MAX_REDIRECTS + 1):
            assert question is not None
            answer, again = self._ask(question)
            if again is None or not follow_redirects:
                return answer
            question = again
        raise SourceError(f"{path}: more than {MAX_REDIRECTS} redirects")

    def post(
        self,
        path: str,
        *,
        form: Mapping[str, str] | None = None,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Return the answer to a POST of a form or of bytes; redirects are never followed."""
        return self._ask(self._remote.question("POST", path, params, headers, form, content, timeout_seconds))[0]

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str] | None = None, *, timeout_seconds: float) -> Iterator[Stream]:
        """Open a GET whose answer is read as it comes, for so long at most; redirects are never followed."""
        question = self._remote.question(
            "GET", path, params, {"Accept-Encoding": "identity"}, timeout_seconds=timeout_seconds
        )
        place = self._remote.place(question.url)
        deadline_ns = self._remote.monotonic_ns() + int(timeout_seconds * 1e9)
        with self._stream(question) as answer:
            yield Stream(
                answer.status_code,
                dict(answer.headers),
                self._in_time(answer.iter_raw(), deadline_ns, place),
                place,
                self._remote.settings.max_answer_bytes,
            )

    def _in_time(self, chunks: Iterator[bytes], deadline_ns: int, place: str) -> Iterator[bytes]:
        for chunk in chunks:
            if self._remote.monotonic_ns() > deadline_ns:
                raise Unavailable("timeout", f"{place}: the answer did not end in time")
            yield chunk

    def delete(self, path: str, headers: Mapping[str, str] | None = None, *, timeout_seconds: float) -> Answer:
        """Return the answer to a DELETE; redirects are never followed."""
        question = self._remote.question("DELETE", path, None, headers, timeout_seconds=timeout_seconds)
        return self._ask(question)[0]

    def _ask(self, question: _Question) -> tuple[Answer, _Question | None]:
        began_ns = self._remote.monotonic_ns()
        with self._stream(question) as answer:
            again = self._remote.redirected(question, answer)
            body = self._remote.body(question, answer)
            for chunk in answer.iter_raw():
                body.feed(chunk)
            elapsed = (self._remote.monotonic_ns() - began_ns) / 1e9
            return Answer(answer.status_code, dict(answer.headers), body.finish(), elapsed), again

    @contextmanager
    def _stream(self, question: _Question) -> Iterator[httpx.Response]:
        if self._client.is_closed:  # a thread that was not waited for asks on
            raise Unavailable("closed", f"{self._remote.place(question.url)}: this client is closed")
        try:
            with self._client.stream(
                question.method,
                question.url,
                headers=question.headers,
                data=question.form,
                content=question.content,
                timeout=self._remote.limits(question),
                extensions=self._remote.extensions(),
            ) as answer:
                yield answer
        except httpx.HTTPError as error:
            raise self._remote.failure(question, error) from error

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
