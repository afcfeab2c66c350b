"""A Grafana of our own: its API of teams over real HTTP, with a service account's token."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_0123456789abcdef"


class GrafanaServer:
    """Serves on loopback until `close`; `teams` are members by name of the team."""

    def __init__(self) -> None:
        grafana = self
        self.teams: dict[str, list[dict[str, object]]] = {}
        self.asked: list[str] = []
        self.broken: bytes | int | None = None

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                grafana.asked.append(self.path)
                known = self.headers.get("authorization") == f"Bearer {TOKEN}"
                status, body = grafana._answer(self.path) if known else (401, b'{"message": "Unauthorized"}')
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str) -> tuple[int, bytes]:
        if isinstance(self.broken, bytes):
            return 200, self.broken
        if self.broken is not None:
            return self.broken, b"{}"
        address, names = urlsplit(path), list(self.teams)
        if address.path == "/api/teams/search":
            # As the real one does with most databases: the name is compared without case.
            wanted = parse_qs(address.query)["name"][0].lower()
            found = [{"id": at, "name": name} for at, name in enumerate(names) if name.lower() == wanted]
            return 200, json.dumps({"totalCount": len(found), "teams": found, "page": 1, "perPage": 1000}).encode()
        team = names[int(address.path.split("/")[3])]
        return 200, json.dumps(self.teams[team]).encode()


def member(login: str, email: str = "") -> dict[str, object]:
    return {"orgId": 1, "teamId": 1, "userId": 7, "login": login, "email": email, "labels": [], "permission": 0}
