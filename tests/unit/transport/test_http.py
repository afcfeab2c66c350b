"""HTTP clients against real servers on loopback."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

Route = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(route: Route, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the address of a server whose every request goes to `route`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            route(self)

        def do_POST(self) -> None:
            route(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that goes away is what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_an_answer_has_status_headers_and_body() -> None:
    with serving(lambda h: answer(h, h.path.encode(), 404, X_Kind="none")) as url, HttpClient(url) as client:
        said = client.get("/ledger", params={"after": "e:1"})

    assert (said.status, said.headers["x-kind"], said.text) == (404, "none", "/ledger?after=e%3A1")
    assert said.elapsed_seconds >= 0


def test_a_path_of_the_base_address_is_kept() -> None:
    with serving(lambda h: answer(h, h.path.encode())) as url, HttpClient(url + "/prom/") as client:
        assert client.get("/api/v1/query").text == "/prom/api/v1/query"


def test_without_a_path_the_base_address_itself_is_asked() -> None:
    with serving(lambda h: answer(h, h.path.encode())) as url, HttpClient(url + "/api?area=7") as client:
        assert client.get("").text == "/api?area=7"
        assert client.get("", {"token": "x"}).text == "/api?area=7&token=x"


def test_httpx_logs_no_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with serving(lambda h: answer(h, b"")) as url, HttpClient(url) as client:
        client.get("/api", {"token": "s3cret"})

    assert any("/api" in record.getMessage() for record in caplog.records)
    assert not [record for record in caplog.records if "s3cret" in record.getMessage()]


def test_gzip_is_undone() -> None:
    packed = gzip.compress(b"x" * 1000)
    with serving(lambda h: answer(h, packed, Content_Encoding="gzip")) as url, HttpClient(url) as client:
        assert client.get("/").body == b"x" * 1000


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (gzip.compress(b"x" * 10_000_000), "gzip", "at most 1000 bytes"),
        (b"x" * 1001, "identity", "at most 1000 bytes"),
        (b"not gzip at all", "gzip", "expected gzip"),
        (gzip.compress(b"x" * 500, mtime=0)[:-4], "gzip", "ends early"),
        (b"x", "br", "content encoding 'br'"),
    ],
)
def test_a_bad_body_is_a_source_error(body: bytes, encoding: str, words: str) -> None:
    settings = HttpClientSettings(max_answer_bytes=1000)
    with (
        serving(lambda h: answer(h, body, Content_Encoding=encoding)) as url,
        HttpClient(url, settings) as client,
        pytest.raises(SourceError, match=words),
    ):
        client.get("/")


def test_a_redirect_on_the_same_host_is_followed() -> None:
    def route(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/old":
            answer(handler, b"", 302, Location="/new")
        else:
            answer(handler, handler.path.encode())

    with serving(route) as url, HttpClient(url) as client:
        assert client.get("/old").text == "/new"


def test_a_redirect_to_another_host_is_refused_and_takes_no_token_there() -> None:
    asked: list[str | None] = []

    def foreign(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["Authorization"])
        answer(handler, b"")

    with (
        serving(foreign) as other,
        serving(lambda h: answer(h, b"", 302, Location=other)) as url,
        HttpClient(url, token="secret") as client,
        pytest.raises(SourceError, match="another host"),
    ):
        client.get("/")

    assert asked == []


def test_redirects_end() -> None:
    with (
        serving(lambda h: answer(h, b"", 302, Location="/")) as url,
        HttpClient(url) as client,
        pytest.raises(SourceError, match="redirects"),
    ):
        client.get("/")


def test_a_token_file_is_sent_as_a_bearer_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    settings = HttpClientSettings(token_file=tmp_path / "token")
    with (
        serving(lambda h: answer(h, str(h.headers["Authorization"]).encode())) as url,
        HttpClient(url, settings) as client,
    ):
        assert client.get("/").text == "Bearer abc"


def test_the_environment_is_never_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(lambda h: answer(h, b"direct")) as url, HttpClient(url) as client:
        assert client.get("/").text == "direct"


def test_a_closed_port_is_unavailable_as_refused() -> None:
    with serving(lambda h: answer(h, b"")) as url:
        pass

    with HttpClient(url) as client, pytest.raises(Unavailable) as caught:
        client.get("/metrics", params={"secret": "1"})

    assert caught.value.reason == "refused"
    assert "secret" not in str(caught.value)


def test_a_client_that_was_closed_under_a_thread_is_unavailable_and_no_bug() -> None:
    client = HttpClient("http://127.0.0.1:1")
    client.close()

    with pytest.raises(Unavailable) as caught:
        client.get("/metrics")

    assert caught.value.reason == "closed"


def wait(done: threading.Event) -> None:
    done.wait()


def test_silence_is_unavailable_as_timeout() -> None:
    done = threading.Event()
    with serving(lambda _: wait(done)) as url:
        settings = HttpClientSettings(read_timeout_seconds=0.05)
        with HttpClient(url, settings) as client, pytest.raises(Unavailable) as caught:
            client.get("/")
        done.set()

    assert caught.value.reason == "timeout"


def test_one_question_may_have_less_time_than_the_settings_give() -> None:
    done = threading.Event()
    with serving(lambda _: wait(done)) as url:
        with HttpClient(url) as client, pytest.raises(Unavailable) as caught:
            client.get("/", timeout_seconds=0.05)
        done.set()

    assert caught.value.reason == "timeout"


def test_an_answer_that_drips_is_cut_at_the_total_timeout() -> None:
    now = iter(range(0, 10**12, 10**9))  # every look at the clock is a second later
    with serving(lambda h: answer(h, b"x" * 400_000)) as url:
        settings = HttpClientSettings(total_timeout_seconds=2.5)
        client = HttpClient(url, settings, monotonic_ns=lambda: next(now))
        with client, pytest.raises(Unavailable) as caught:
            client.get("/")

    assert caught.value.reason == "timeout"


def test_a_connection_cut_short_is_unavailable_as_closed() -> None:
    def route(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"short")
        handler.close_connection = True

    with serving(route) as url, HttpClient(url) as client, pytest.raises(Unavailable) as caught:
        client.get("/")

    assert caught.value.reason == "closed"


def test_a_name_that_does_not_resolve_is_unavailable_as_dns() -> None:
    with HttpClient("http://no-such-host.invalid") as client, pytest.raises(Unavailable) as caught:
        client.get("/")

    assert caught.value.reason == "dns"


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://user:pass@127.0.0.1", None, "not in an address"),
        ("ftp://127.0.0.1", None, "expected http"),
        ("node1:9810", None, "expected http"),
        ("http://node1:9810", "secret", "over https"),
        ("http://[::", None, "expected http"),
    ],
)
def test_an_address_that_would_leak_or_mean_nothing_is_a_config_error(url: str, token: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        HttpClient(url, token=token)

    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.9.9.9"])
def test_a_token_may_go_to_loopback_in_the_clear(host: str) -> None:
    HttpClient(f"http://{host}:1", token="secret").close()


@pytest.mark.parametrize("key", ["token_file", "ca_file", "client_certificate_file"])
def test_an_unreadable_file_is_a_config_error_that_names_the_key(tmp_path: Path, key: str) -> None:
    settings = HttpClientSettings.model_validate({key: tmp_path / "absent"})

    with pytest.raises(ConfigError, match=key):
        HttpClient("http://127.0.0.1", settings)


def test_an_empty_token_file_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")

    with pytest.raises(ConfigError, match="one token"):
        HttpClient("http://127.0.0.1", HttpClientSettings(token_file=tmp_path / "token"))


def test_a_key_without_a_certificate_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="client_key_file"):
        HttpClient("https://127.0.0.1", HttpClientSettings(client_key_file=tmp_path / "key"))


def test_a_form_is_posted() -> None:
    def route(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        answer(handler, handler.headers["Content-Type"].encode() + b" " + body)

    with serving(route) as url, HttpClient(url) as client:
        assert client.post("/q", form={"query": "up"}).text == "application/x-www-form-urlencoded query=up"
        assert client.post("/q", content=b"raw", headers={"Content-Type": "text/x"}).text == "text/x raw"
