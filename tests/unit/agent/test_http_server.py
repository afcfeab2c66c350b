import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.unit.agent.faces import LOAD, TOKEN, Face, FaceMaker, local, unit_samples
from tests.unit.ledger.journals import append
from tests.unit.ledger.slots import slot

from kwhere.agent import anonymous, http_protocol
from kwhere.agent.health import Health
from kwhere.agent.http_settings import HttpSettings
from kwhere.agent.listen import open_sockets
from kwhere.collectors import runner
from kwhere.core.errors import ConfigError
from kwhere.core.metrics import Sample
from kwhere.ledger.decode import decode_page


def energies(response: httpx.Response) -> dict[str, float]:
    return {
        sample.labels["unit"]: sample.value
        for family in parse_text(response.text)
        for sample in family.samples
        if sample.name == "kwhere_unit_energy_joules_total"
    }


def test_metrics_are_text_that_prometheus_reads(make_face: FaceMaker) -> None:
    response = make_face().get("/metrics")

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert energies(response) == {"42": 1.5, "alice:cfd": 1.5}
    assert 'kwhere_collector_up{collector="load"} 1' in response.text


def test_metrics_are_openmetrics_on_request(make_face: FaceMaker) -> None:
    response = make_face().get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})

    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in parse_openmetrics(response.text)}  # type: ignore[no-untyped-call]
    assert "kwhere_unit_energy_joules" in names


def test_metrics_are_compressed_only_on_request(make_face: FaceMaker) -> None:
    face = make_face()
    face.feed.samples = [
        Sample(s.spec, (s.labels[0], str(n), *s.labels[2:]), n) for n in range(50) for s in unit_samples()[:1]
    ]

    packed = face.get("/metrics", headers={"accept-encoding": "gzip"})
    plain = face.get("/metrics", headers={"accept-encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert "accept-encoding" in plain.headers["vary"]


def test_only_the_named_collectors_are_scraped(make_face: FaceMaker) -> None:
    face = make_face()

    response = face.get("/metrics?collect[]=load")

    assert "kwhere_node_load1 0.5" in response.text
    assert "kwhere_unit_info" not in response.text
    assert "kwhere_unit_info" in face.get("/metrics?collect[]=load&collect[]=units").text


@pytest.mark.parametrize("token", [None, TOKEN])
def test_unknown_collector_is_a_bad_request(make_face: FaceMaker, token: str | None) -> None:
    response = make_face().get("/metrics?collect[]=nope", token=token)

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert "nope" in response.json()["detail"]


def test_stranger_s_energy_moves_at_most_once_a_second(make_face: FaceMaker) -> None:
    face = make_face()
    seen = []
    for number, passed_ns in enumerate((0, 999_999_999, 1)):
        face.clock.now_ns += passed_ns
        face.feed.samples = unit_samples(float(number))
        seen.append(energies(face.get("/metrics"))["42"])
        assert energies(face.get("/metrics?collect[]=units"))["42"] == seen[-1]

    assert seen == [0.0, 0.0, 2.0]


def test_energy_is_as_fresh_as_it_can_be_for_who_has_the_token(make_face: FaceMaker) -> None:
    face = make_face()
    face.get("/metrics", token=TOKEN)
    face.feed.samples = unit_samples(9.0)

    assert energies(face.get("/metrics", token=TOKEN))["42"] == 9.0


def test_concurrent_scrapers_change_nothing(make_face: FaceMaker) -> None:
    face = make_face()
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(face.get("/metrics", token=TOKEN).text)) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 12
    assert len(set(answers)) == 1


def test_names_are_kept_from_strangers_on_request(make_face: FaceMaker) -> None:
    face = make_face(settings=local(anonymous_names=False))

    text = face.get("/metrics").text

    for word in ("alice", "cfd", "secret-name", "secret-project"):
        assert word not in text
    assert len(energies(face.get("/metrics"))) == 2
    assert 'unit="42",run="42@7"' in text
    assert text == face.get("/metrics").text
    assert "alice:cfd@7" in face.get("/metrics", token=TOKEN).text


def test_pseudonyms_outlive_a_restart(make_face: FaceMaker) -> None:
    first = energies(make_face(settings=local(anonymous_names=False)).get("/metrics"))

    assert energies(make_face(settings=local(anonymous_names=False)).get("/metrics")) == first


def test_ledger_page_is_what_the_journal_holds(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal, 5)

    response = face.get("/ledger?limit=3", token=TOKEN)
    page = decode_page(response.content)

    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["content-encoding"] == "gzip"
    assert [line.slot for line in page.lines] == [slot(1), slot(2), slot(3)]
    rest = decode_page(face.get(f"/ledger?after={page.header.next}", token=TOKEN).content)
    assert [line.slot.seq for line in rest.lines] == [4, 5]
    assert rest.lines[0].prev == page.lines[-1].digest


def test_limit_is_cut_to_what_is_served(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal, 3)

    assert len(decode_page(face.get("/ledger?limit=999999999", token=TOKEN).content).lines) == 3


def test_what_a_reader_asks_after_counts_as_pulled(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal, 2)

    face.get(f"/ledger?after={face.journal.epoch}:2", token=TOKEN)

    assert face.journal._pulled.seq == 2


@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1], TOKEN + "x"])
def test_ledger_is_closed_without_the_token(make_face: FaceMaker, token: str | None) -> None:
    face = make_face()
    append(face.journal)

    response = face.get("/ledger", token=token)

    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert b"4242" not in response.content


def test_agent_without_a_token_has_a_closed_ledger(make_face: FaceMaker) -> None:
    assert make_face(token=None).get("/ledger", token="None").status_code == 401


@pytest.mark.parametrize(
    "query",
    ["after=", "after=x", "after=1", "limit=0", "limit=-1", "limit=x", "limit=", "limit=1&limit=2", "limit=1e3",
     "limit=99999999999", "after=a:1&after=b:2", "limit=%D9%A3", "after=%00", "&".join(["limit=1"] * 300)],
)  # fmt: skip
def test_malformed_ledger_query_is_a_bad_request(make_face: FaceMaker, query: str) -> None:
    response = make_face().get(f"/ledger?{query}", token=TOKEN)

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


def test_cursor_of_another_journal_is_gone(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal)

    response = face.get("/ledger?after=00000000-0000-0000-0000-000000000000:3", token=TOKEN)

    assert response.status_code == 410
    assert response.json()["oldest"] == f"{face.journal.epoch}:0"
    assert face.get(f"/ledger?after={response.json()['oldest']}", token=TOKEN).status_code == 200


def test_cursor_past_the_newest_slot_is_a_conflict(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal)

    assert face.get(f"/ledger?after={face.journal.epoch}:2", token=TOKEN).status_code == 409


def test_journal_that_cannot_be_read_is_unavailable(make_face: FaceMaker, tmp_path: Path) -> None:
    face = make_face()
    append(face.journal)
    for path in tmp_path.glob("state0/journal.sqlite*"):
        path.unlink()

    response = face.get("/ledger", token=TOKEN)

    assert response.status_code == 503
    assert response.json()["cause"] == "path"


def test_health_tells_reasons(make_face: FaceMaker) -> None:
    state = {"health": Health(True, facts={"step_seconds": 1.0})}
    face = make_face(health=lambda: state["health"])

    good = face.get("/healthz")
    state["health"] = Health(False, ("no step for 12 s",))
    bad = face.get("/healthz")

    assert (good.status_code, good.json()) == (200, {"status": "ok", "reasons": [], "step_seconds": 1.0})
    assert (bad.status_code, bad.json()) == (503, {"status": "failing", "reasons": ["no step for 12 s"]})


def test_health_that_fails_is_an_error_without_its_text(
    make_face: FaceMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Health:
        raise ZeroDivisionError("inner detail")

    face = make_face(health=broken)

    responses = [face.get("/healthz") for _ in range(3)]

    assert [response.status_code for response in responses] == [500] * 3
    assert "inner detail" not in responses[0].text
    assert capsys.readouterr().out.count("inner detail") == 1


def test_landing_page_links_to_the_others(make_face: FaceMaker) -> None:
    response = make_face().get("/")

    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert 'href="/metrics"' in response.text
    assert "units, load" in response.text


@pytest.mark.parametrize("path", ["/nope", "/metrics/", "/ledger/x", "//", "/%2e%2e/etc/passwd", "/METRICS"])
def test_other_paths_are_not_found(make_face: FaceMaker, path: str) -> None:
    assert make_face().get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_not_allowed(make_face: FaceMaker, method: str) -> None:
    response = make_face().get("/metrics", method=method)

    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/ledger"])
def test_head_has_the_headers_of_get_and_no_body(make_face: FaceMaker, path: str) -> None:
    face = make_face()

    got = face.get(path, token=TOKEN)
    head = face.get(path, token=TOKEN, method="HEAD")

    assert head.status_code == got.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]
    assert head.headers["content-type"] == got.headers["content-type"]


def test_answers_tell_the_agent_s_clock(make_face: FaceMaker) -> None:
    face = make_face()
    face.clock.now_ns = 1_795_975_931_123_456_789

    response = face.get("/healthz")

    assert response.headers["x-clock-utc-ns"] == "1795975931123456789"
    assert response.headers["date"] == "Sun, 29 Nov 2026 18:12:11 GMT"


def test_answers_are_not_for_other_sites(make_face: FaceMaker) -> None:
    response = make_face().get("/")

    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "server" not in response.headers


def raw(face: Face, request: bytes, *, half_close: bool = False) -> bytes:
    host, port = face.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(request)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize(
    "request_bytes",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"G" * 100_000, b"\0" * 10,
     b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
     b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_answered_or_closed_and_the_agent_goes_on(
    make_face: FaceMaker, request_bytes: bytes
) -> None:
    face = make_face()

    try:
        answer = raw(face, request_bytes, half_close=True)
    except TimeoutError:
        raise
    except OSError:
        answer = b""

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert face.get("/healthz").status_code == 200


def test_odd_bytes_in_path_query_and_headers_do_no_harm(make_face: FaceMaker) -> None:
    face = make_face()

    answer = raw(
        face, b"GET /metrics?%ff=%00&collect[]=%ff HTTP/1.1\r\nhost: x\r\naccept: \xff\xfe\r\nconnection: close\r\n\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 400")


def test_pipelined_requests_are_answered_in_order(make_face: FaceMaker) -> None:
    answer = raw(
        make_face(), b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\nHEAD /nope HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )

    assert answer.index(b"HTTP/1.1 200") < answer.index(b"HTTP/1.1 404")


def test_taken_port_is_a_clear_error(make_face: FaceMaker) -> None:
    first = make_face()
    address = first.url.removeprefix("http://")

    with pytest.raises(ConfigError, match=f"web.listen_addresses: {address}: taken by another process"):
        make_face(settings=HttpSettings(listen_addresses=(address,)))

    other = make_face(settings=HttpSettings(listen_addresses=(address,), next_free_port=True))
    assert other.url != first.url
    assert other.get("/healthz").status_code == 200


def test_several_addresses_are_served(make_face: FaceMaker, tmp_path: Path) -> None:
    path = tmp_path / "agent-http.sock"
    face = make_face(settings=HttpSettings(listen_addresses=("127.0.0.1:0", f"unix:{path}")))

    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        assert client.get("http://agent/healthz").status_code == 200
        assert client.get("http://agent/ledger", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert face.get("/healthz").status_code == 200
    assert face.face.urls[1] == f"unix:{path}"
    face.face.stop()
    assert not path.exists()


def test_ipv6_is_served(make_face: FaceMaker) -> None:
    try:
        face = make_face(settings=HttpSettings(listen_addresses=("[::1]:0",)))
    except ConfigError:
        pytest.skip("no IPv6 here")

    assert face.url.startswith("http://[::1]:")
    assert face.get("/ledger", token=TOKEN).status_code == 200


@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0"])
def test_strangers_are_let_in_only_when_asked(make_face: FaceMaker, address: str) -> None:
    with pytest.raises(ConfigError, match=r"can be reached from other machines: set web\.config_file"):
        make_face(settings=HttpSettings(listen_addresses=(address,)))

    make_face(settings=HttpSettings(listen_addresses=(address,), allow_unprotected=True))


def test_stop_is_quick_though_connections_stay_open(make_face: FaceMaker) -> None:
    face = make_face()
    host, port = face.url.removeprefix("http://").split(":")
    with httpx.Client() as client, socket.create_connection((host, int(port))):
        client.get(face.url + "/healthz")
        started = time.monotonic()

        face.face.stop()

        assert not face.face._thread.is_alive()  # type: ignore[union-attr]
        assert time.monotonic() - started < 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1)


def test_stop_does_not_wait_for_a_scrape_that_hangs(make_face: FaceMaker) -> None:
    face = make_face()
    entered, free = threading.Event(), threading.Event()

    def hang() -> Iterator[Sample]:
        entered.set()
        free.wait()
        yield Sample(LOAD, (), 1)

    face.feed.samples = hang()
    scrape = threading.Thread(target=lambda: httpx.get(face.url + "/metrics"), daemon=True)
    excepthook, threading.excepthook = threading.excepthook, lambda args: None
    scrape.start()
    entered.wait()

    face.face.stop()

    assert not face.face._thread.is_alive()  # type: ignore[union-attr]
    free.set()
    scrape.join()
    threading.excepthook = excepthook


def test_scrapes_go_on_though_a_collector_hangs(make_face: FaceMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anonymous, "_BUSY_SECONDS", 0.01)
    monkeypatch.setattr(runner, "_BUSY_SECONDS", 0.01)
    face = make_face()
    entered, free = threading.Event(), threading.Event()

    def hang() -> Iterator[Sample]:
        entered.set()
        free.wait()
        yield from unit_samples()

    face.feed.samples = hang()
    stuck = threading.Thread(target=lambda: face.get("/metrics"))
    stuck.start()
    entered.wait()

    answers = [face.get("/metrics", token=token) for token in (None, TOKEN, None, TOKEN, None, TOKEN)]
    free.set()
    stuck.join()

    assert [answer.status_code for answer in answers] == [200] * 6
    assert all('kwhere_collector_up{collector="units"} 0' in answer.text for answer in answers)
    assert all("kwhere_node_load1 0.5" in answer.text for answer in answers)


def test_silent_connection_is_closed(make_face: FaceMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "SILENCE_SECONDS", 0.01)

    assert raw(make_face(), b"GET /metr") == b""


def test_more_connections_than_allowed_get_a_503(make_face: FaceMaker) -> None:
    face = make_face(settings=local(max_connections=4))
    clients = [httpx.Client() for _ in range(6)]

    statuses = [client.get(face.url + "/healthz").status_code for client in clients]
    for client in clients:
        client.close()

    assert statuses[:3] == [200, 200, 200]
    assert statuses[-1] == 503


def test_gzip_of_the_ledger_is_one_member(make_face: FaceMaker) -> None:
    face = make_face()
    append(face.journal, 20)
    lines = ["GET /ledger HTTP/1.1", "host: x", f"authorization: Bearer {TOKEN}", "accept-encoding: gzip"]

    body = raw(face, "\r\n".join([*lines, "connection: close", "", ""]).encode()).split(b"\r\n\r\n", 1)[1]

    assert len(gzip.decompress(body).splitlines()) == 21
    assert json.loads(gzip.decompress(body).splitlines()[0])["newest"] == 20


def test_path_that_was_handed_over_stays_for_the_next_agent(make_face: FaceMaker, tmp_path: Path) -> None:
    path = tmp_path / "handed.sock"
    [handed] = open_sockets([f"unix:{path}"])
    face = make_face(handed_over=[handed])

    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        assert client.get("http://agent/healthz").status_code == 200
    face.face.stop()

    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        again = make_face(handed_over=[handed])
        assert client.get("http://agent/healthz").status_code == 200
    again.face.stop()
    handed.close()


def test_open_sockets_holds_none_after_an_error() -> None:
    [taken] = open_sockets(["127.0.0.1:0"])
    port = taken.getsockname()[1]

    with pytest.raises(ConfigError):
        open_sockets(["127.0.0.1:0", f"127.0.0.1:{port}"])

    taken.close()
