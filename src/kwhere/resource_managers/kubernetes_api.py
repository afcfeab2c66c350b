"""The Kubernetes API: lists by pages and watches, with what both do when the past is gone or the answer is cut off.

Source: Kubernetes documentation, "Kubernetes API Concepts".
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, KwhereError, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.json_answer import JsonValue, elements, member, parse_object, text
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.transport.http import Answer, HttpClient

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PROFILES = "/apis/kubeflow.org/v1/profiles"
NOTEBOOKS = "/apis/kubeflow.org/v1/notebooks"
WORKSPACES = "/apis/kubeflow.org/v1beta1/workspaces"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/workflows"
METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"}
"""The header of a list of which each object's metadata alone is wanted; whole ones where it cannot be had."""

T = TypeVar("T")
_GONE = 410
_TIMEOUT = 504
_OF_NO_USE = frozenset({"Expired", "Gone", "ResourceVersionTooLarge"})
"""Reasons by which a version will never do: forgotten, or of a future that a restored cluster has not had."""
_LIST_ATTEMPTS = 4
_LONGEST_WAIT_SECONDS = 8.0
_GRACE_SECONDS = 10.0
"""How much later than it was told a server may end a watch."""
_EXCERPT = 200
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Gone(KwhereError):  # noqa: N818 - the API's own word
    """The API no longer knows what came after a version: all must be listed anew."""


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A whole list as it stood at one version."""

    items: tuple[T, ...]
    version: str


@dataclass(frozen=True, slots=True)
class Watched:
    """What happened since a version, in order: the type (ADDED, MODIFIED, DELETED) and the object after it."""

    events: tuple[tuple[str, JsonValue], ...]
    version: str
    """Of the last thing heard, bookmarks included."""


@dataclass(slots=True)
class _Heard:
    version: str
    events: list[tuple[str, JsonValue]] = field(default_factory=list)


class KubernetesApi:
    """One cluster's API. Any thread, one question at a time."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        wait: Callable[[float], object] = time.sleep,
        page_size: int = 500,
    ) -> None:
        """`wait` waits for so many seconds."""
        self._access = access
        self._clock = clock
        self._wait = wait
        self._page_size = page_size
        self._client: HttpClient | None = None
        self._token: str | None = None

    def close(self) -> None:
        """Give back the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def list_all(self, path: str) -> Listed[JsonValue]:
        """Return every object below `path`. Raises Unavailable, SourceError."""
        return self.list_as(path, list)

    def list_metadata(self, path: str, selector: str) -> Listed[JsonValue]:
        """Return the metadata of every object below `path` whose labels fit. Raises Unavailable, SourceError."""
        return self.list_as(path, list, params={"labelSelector": selector}, headers=METADATA_ONLY)

    def list_as(
        self,
        path: str,
        read: Callable[[Sequence[JsonValue]], Sequence[T]],
        *,
        params: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> Listed[T]:
        """Return what `read` makes of every object below `path`: objects are large, so each page is read when it comes.

        Pages are of one version. Where it is forgotten in between, the list begins anew, with larger pages.
        """
        page_size = self._page_size
        for _ in range(_LIST_ATTEMPTS):
            try:
                return self._pages(path, {"limit": str(page_size), **params}, headers, read)
            except Gone:
                page_size *= 2
        raise Unavailable(
            "gone", f"{self._place(path)}: the list was forgotten {_LIST_ATTEMPTS} times while it was read"
        )

    def _pages(
        self,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        read: Callable[[Sequence[JsonValue]], Sequence[T]],
    ) -> Listed[T]:
        items: list[T] = []
        following, seen = "", set[str]()
        while True:
            answer = self._get(path, {**params, "continue": following} if following else params, headers)
            with _collector_paused():
                page = parse_object(answer.body, self._place(path))
                version, following = (text(member(page, "metadata", word)) for word in ("resourceVersion", "continue"))
                found = page.get("items", "none")
                # Some other object with status 200 is not an empty cluster; null is one, in the API's own words.
                if not version or not (found is None or isinstance(found, list)):
                    raise SourceError(f"{self._place(path)}: expected a list of items with its version, found neither")
                items += read(elements(found))
                del page, found
            if not following:
                return Listed(tuple(items), version)
            if following in seen:
                raise SourceError(f"{self._place(path)}: expected another page, found the same again")
            seen.add(following)

    def watch(self, path: str, version: str, seconds: float) -> Watched:
        """Return what happened since `version`, waiting `seconds` for more. Raises Gone, Unavailable, SourceError.

        A connection that breaks is made again, at longer and longer intervals, from where it broke; what it had told
        until then is kept. Only where nothing was heard at all is it an error.
        """
        heard = _Heard(version)
        began_ns = self._clock.monotonic_ns()
        wait_seconds = 0.1
        has_answered = False
        while True:
            left = seconds - (self._clock.monotonic_ns() - began_ns) / NANOSECONDS_PER_SECOND
            try:
                self._hear(path, heard, max(1.0, left))
                return Watched(tuple(heard.events), heard.version)
            except Unavailable as error:
                has_answered = has_answered or heard.version != version
                left = seconds - (self._clock.monotonic_ns() - began_ns) / NANOSECONDS_PER_SECOND
                wait_seconds = max(wait_seconds, error.retry_after_seconds or 0.0)
                if left <= wait_seconds or error.reason == "permission":
                    if has_answered:
                        return Watched(tuple(heard.events), heard.version)
                    raise
                # Not all at once when an API comes back.
                self._wait(wait_seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)

    def _hear(self, path: str, heard: _Heard, seconds: float) -> None:
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": heard.version,
            "timeoutSeconds": str(int(seconds)),
        }
        place = self._place(path)
        with (
            self._asking(place) as client,
            client.stream(path, params, timeout_seconds=seconds + _GRACE_SECONDS) as said,
        ):
            if said.status != 200:
                self._judge(said.status, said.beginning(), said.headers, place)
            for line in said.lines():
                self._take(parse_object(line, place), heard, place)

    def _take(self, event: Mapping[str, JsonValue], heard: _Heard, place: str) -> None:
        kind, item = text(event.get("type")), event.get("object")
        if kind == "ERROR":
            code, said = member(item, "code"), f"{place}: {text(member(item, 'message'))[:_EXCERPT]}"
            if code == _GONE or _is_of_no_use(item):
                raise Gone(said)
            raise Unavailable("refused", f"{said} (status {code})")
        version = text(member(item, "metadata", "resourceVersion"))
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            heard.events.append((kind, item))
        elif kind != "BOOKMARK":
            raise SourceError(f"{place}: expected an event, found the type {kind[:40]!r}")
        if version:
            heard.version = version

    def _get(self, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        place = self._place(path)
        answer = self._ask(path, params, headers, place)
        if answer.status == 401:  # the token may have been renewed since it was read
            self.close()
            answer = self._ask(path, params, headers, place)
        if answer.status != 200:
            self._judge(answer.status, answer.body, answer.headers, place)
        return answer

    def _ask(self, path: str, params: Mapping[str, str], headers: Mapping[str, str], place: str) -> Answer:
        with self._asking(place) as client:
            return client.get(path, params, headers)

    @contextmanager
    def _asking(self, place: str) -> Iterator[HttpClient]:
        """A client that shows the token in force. After a failure it is built anew: authorities are renewed too."""
        try:
            token = self._access.read_token()
            if self._client is None or token != self._token:
                self.close()
                self._client, self._token = self._access.connect(token), token
            yield self._client
        except ConfigError as error:  # a file that was there at the start
            raise Unavailable("credentials", f"{place}: {error}") from error
        except Unavailable as error:
            if error.reason not in ("permission", "absent"):
                self.close()
            raise

    def _judge(self, status: int, body: bytes, headers: Mapping[str, str], place: str) -> None:
        """Raise what a status other than 200 means."""
        said = _message(body)
        if status == _GONE or (status == _TIMEOUT and _is_of_no_use(_status_of(body))):
            raise Gone(f"{place}: {said}")
        if status == 401:
            self.close()
            raise Unavailable("permission", f"{place}: the API does not take our credentials: {said}")
        if status == 403:
            raise Unavailable("permission", f"{place}: not permitted: {said}")
        if status == 404:
            raise Unavailable("absent", f"{place}: the API has no such kind: {said}")
        if status == 429 or status >= 500:
            raise Unavailable(
                "busy", f"{place}: status {status}: {said}", retry_after_seconds=_seconds(headers.get("retry-after"))
            )
        raise SourceError(f"{place}: expected status 200, found {status}: {said}")

    def _place(self, path: str) -> str:
        return f"{self._access.url}{path}"


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A page is some hundred thousand objects without a cycle: looking for one takes longer than reading them."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _status_of(body: bytes) -> JsonValue:
    try:
        return parse_object(body, "answer")
    except SourceError:
        return None


def _is_of_no_use(status: JsonValue) -> bool:
    causes = [member(cause, "reason") for cause in elements(member(status, "details", "causes"))]
    return not _OF_NO_USE.isdisjoint(text(reason) for reason in (member(status, "reason"), *causes))


def _message(body: bytes) -> str:
    return " ".join(text(member(_status_of(body), "message")).split())[:_EXCERPT] or "no message"


def _seconds(word: str | None) -> float | None:
    return float(word) if word and word.isascii() and word.isdigit() and len(word) < 6 else None
