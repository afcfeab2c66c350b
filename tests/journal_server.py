"""Serves a hand-made journal as an agent would, on a free loopback port."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.journals import HandJournal


class JournalServer:
    """One agent; `asked` counts its questions."""

    def __init__(self, journal: HandJournal) -> None:
        self.journal = journal
        self.url = ""
        self.asked = threading.Semaphore(0)

    def answer(self, after: str | None, limit: int) -> bytes:
        body = self.journal.body(after, limit)
        self.asked.release()
        return body


@contextmanager
def serve_journal(journal: HandJournal) -> Iterator[JournalServer]:
    """Serve until the block ends."""
    served = JournalServer(journal)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            words = parse_qs(urlsplit(self.path).query)
            body = served.answer(words.get("after", [None])[0], int(words["limit"][0]))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def handle(self) -> None:
            with suppress(ConnectionError):  # the reader was killed
                super().handle()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
