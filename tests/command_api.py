"""A server that answers the command line as a test says: real HTTP, every question noted."""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Query = dict[str, str]
Reply = Callable[[Query], tuple[int, object]]


class CommandApi:
    """Routes by path below `/api/v1`; what has none is a 404 problem."""

    def __init__(self, state: Path, token: str = "a-token-of-the-test") -> None:
        self.routes: dict[str, Reply] = {}
        self.asked: list[tuple[str, Query]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, token))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        (state / "url").write_text(f"http://127.0.0.1:{self._server.server_port}\n")
        (state / "token").write_text(token)
        (state / "token").chmod(0o600)

    def lists(self, path: str, *items: Mapping[str, Any]) -> None:
        """Answer `path` with these items on one page."""
        self.routes[path] = lambda _: (200, {"items": list(items), "next": None})

    def tells(self, path: str, document: object) -> None:
        """Answer `path` with this document."""
        self.routes[path] = lambda _: (200, document)

    def refuses(self, path: str, status: int, detail: str) -> None:
        """Answer `path` with a problem."""
        self.routes[path] = lambda _: (status, {"title": "no", "detail": detail})

    def questions(self, path: str) -> list[Query]:
        """Return what `path` was asked."""
        return [query for asked, query in self.asked if asked == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(api: CommandApi, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            path = url.path.removeprefix("/api/v1")
            query = {name: ",".join(values) for name, values in parse_qs(url.query).items()}
            api.asked.append((path, query))
            if self.headers["Authorization"] != f"Bearer {token}":
                self._answer(401, {"title": "Access token needed", "detail": "open the address that was printed"})
            elif path in api.routes:
                self._answer(*api.routes[path](query))
            else:
                self._answer(404, {"title": "Not Found", "detail": f"there is no {path}"})

        def _answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
