"""OAR by REST: OAR 2.5's `/jobs/details.json` and OAR 3's `/jobs/?details=true`, page by page."""

import base64
from collections.abc import Iterator, Mapping

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.resource_managers.oar_fields import decode, first_of
from kwhere.resource_managers.oar_jobs import ID_NAMES
from kwhere.resource_managers.oar_settings import OarSettings, OarVersion
from kwhere.transport.credentials import check_base_url, read_token
from kwhere.transport.http import Answer, HttpClient

_MOST_PAGES = 10_000


class RestSource:
    """Asks one REST interface."""

    def __init__(self, url: str, settings: OarSettings) -> None:
        """Raises ConfigError for an address that would carry a secret in the clear."""
        check_base_url(url, bearer=settings.login_file is not None or settings.http.token_file is not None)
        # The token is read anew for each question: it is renewed outside.
        self._client = HttpClient(url, settings.http.model_copy(update={"token_file": None}))
        self._url = url.split("?", 1)[0].rstrip("/")
        self._settings = settings
        self.tells_all_in_hand = True

    def jobs(self, span: Span) -> Iterator[tuple[object, str]]:
        """Yield pages of jobs that lived within `span`, and where they come from."""
        start, end = str(int(span.start.timestamp())), str(int(span.end.timestamp()) + 1)
        if self._settings.version is OarVersion.OAR3:
            return self._pages("/jobs/", {"start_time": start, "stop_time": end, "details": "true"})
        return self._pages("/jobs/details.json", {"from": start, "to": end})

    def in_hand(self) -> Iterator[tuple[object, str]]:
        """Yield pages of jobs that wait or live now, and where they come from.

        Where no time is named, both list what is not over (OAR 3: oar/lib/basequery.py).
        """
        self.tells_all_in_hand = True
        if self._settings.version is OarVersion.OAR3:
            return self._pages("/jobs/", {"details": "true"}, is_moving=True)
        return self._pages("/jobs/details.json", {}, is_moving=True)

    def resources(self) -> Iterator[tuple[object, str]]:
        """Yield pages of resources, and where they come from."""
        if self._settings.version is OarVersion.OAR3:
            return self._pages("/resources/", {"detailed": "true"})
        return self._pages("/resources/details.json", {})

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()

    def _pages(self, path: str, params: Mapping[str, str], *, is_moving: bool = False) -> Iterator[tuple[object, str]]:
        """Yield page by page; a list that moves loses records while it is read, so each page begins with a known one.

        Where one was lost, others slid past us unread: what is not listed may then still be there.
        """
        place = f"{self._url}{path}"
        offset, last = 0, None
        new: list[object] = []
        for _ in range(_MOST_PAGES):
            back = int(is_moving and last is not None)
            paging = {"limit": str(self._settings.page_size + back), "offset": str(offset - back)}
            answer = self._get(path, {**params, **paging})
            if answer.status == 404 and offset > 0:  # OAR 3 has no empty pages
                self._note_moved(back > 0)
                return
            if answer.status != 200:
                raise _fault(answer, place)
            document = decode(answer.body, place)
            items = _items(document, place)
            self._note_moved(back > 0 and (not items or _id(items[0]) != last))
            if offset > 0 and items and items[back:] == new:
                raise SourceError(f"{place}: expected other records from {offset} on, found the same page again")
            new = items[back:]
            yield document, place
            offset += len(items) - back
            if len(items) <= back or not _goes_on(document, len(items) - back, offset, self._settings.page_size):
                return
            last = _id(items[-1])
        raise SourceError(f"{place}: more than {_MOST_PAGES} pages")

    def _note_moved(self, has_moved: bool) -> None:
        self.tells_all_in_hand = self.tells_all_in_hand and not has_moved

    def _get(self, path: str, params: Mapping[str, str]) -> Answer:
        headers = {"Accept": "application/json"}
        token = read_token(self._settings.http)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        elif self._settings.login_file is not None:
            headers["Authorization"] = f"Basic {self._login()}"
        return self._client.get(path, params, headers)

    def _login(self) -> str:
        path = self._settings.login_file
        assert path is not None
        try:
            line = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise Unavailable("secret", f"login_file {path}: {detail}") from None
        if ":" not in line or "\n" in line:
            raise Unavailable("secret", f"login_file {path}: expected one line user:password")
        return base64.b64encode(line.encode()).decode()


def _fault(answer: Answer, place: str) -> Unavailable:
    reason = "permission" if answer.status in (401, 403) else "absent" if answer.status == 404 else "remote"
    return Unavailable(reason, f"{place}: HTTP status {answer.status}")


def _items(document: object, place: str) -> list[object]:
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(items, list):
        raise SourceError(f"{place}: expected an object with items")
    return items


def _id(item: object) -> object:
    return first_of(item, ID_NAMES) if isinstance(item, Mapping) else None


def _goes_on(document: object, count: int, offset: int, page_size: int) -> bool:
    """Return whether there is another page: by its link, by the total, else by how full this one is."""
    assert isinstance(document, Mapping)
    links = document.get("links")
    if isinstance(links, list) and links:
        return any(isinstance(link, Mapping) and link.get("rel") == "next" for link in links)
    total = document.get("total")
    if isinstance(total, int) and not isinstance(total, bool):
        return offset < total
    return count >= page_size
