"""Addresses made from the node's name."""

import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kwhere.core.errors import Unavailable
from kwhere.meters.node_url import NodeNameRule, check_question, check_template, node_url, question_url
from kwhere.transport.http import HttpClient


@pytest.mark.parametrize(
    ("template", "rule", "url"),
    [
        ("https://{node}-bmc.example", NodeNameRule(), "https://node7.site.org-bmc.example"),
        ("https://{short}-bmc.example", NodeNameRule(), "https://node7-bmc.example"),
        (
            "https://{name}.mgmt:8443/p",
            NodeNameRule(pattern=r"node(\d+)\..*", replacement=r"ipmi\1"),
            "https://ipmi7.mgmt:8443/p",
        ),
        ("https://10.0.0.7", NodeNameRule(), "https://10.0.0.7"),
        ("https://proxy:9812/{node}", NodeNameRule(), "https://proxy:9812/node7.site.org"),
    ],
)
def test_placeholders_are_filled_in(template: str, rule: NodeNameRule, url: str) -> None:
    assert node_url(check_template(template), rule, "node7.site.org") == url


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("https://{host}", "expected {node}"),
        ("https://{node", "closed"),
        ("https://root:calvin@{node}", "in a file"),
        ("https://{node}/?token=abc", "in a file"),
        ("https://{node}/?x=1&api_key=abc", "in a file"),
        ("ftp://{node}", "https://"),
        ("{node}", "https://"),
        ("https://", "https://"),
        ("https://a b", "https://"),
    ],
)
def test_a_wrong_address_is_refused_and_no_secret_told(template: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as caught:
        check_template(template)
    assert "calvin" not in str(caught.value)


@pytest.mark.parametrize("rule", [NodeNameRule(pattern=r"gpu\d+"), NodeNameRule(pattern="(n).*", replacement=r"\3")])
def test_a_name_that_the_rule_does_not_fit_is_unconfigured(rule: NodeNameRule) -> None:
    with pytest.raises(Unavailable) as caught:
        node_url("https://{name}", rule, "node7")
    assert caught.value.reason == "unconfigured"


def test_a_pattern_that_is_none_stops_the_start() -> None:
    with pytest.raises(ValidationError, match="regular expression"):
        NodeNameRule(pattern="(")


@given(node=st.text(max_size=20))
def test_no_node_name_leads_to_another_host(node: str) -> None:
    try:
        url = node_url("https://{node}.bmc.example/{node}", NodeNameRule(), node)
    except Unavailable:
        return
    assert set(url.removeprefix("https://")) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_/"
    )
    assert url.count("/") == 3


def read_by_a_service(url: str) -> Mapping[str, list[str]]:
    """Return the question as a server reads it from its socket, asked by the client that meters use."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with HttpClient(url.replace("https://prom", f"http://127.0.0.1:{server.server_port}")) as client:
            client.get("")
        thread.join()
    return parse_qs(urlsplit(seen[0]).query)


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ('query=outlet_watts{node="{short}"}', 'outlet_watts{node="node7"}'),
        ('query={__name__="pdu.outlet-watts", node="{node}"}', '{__name__="pdu.outlet-watts", node="node7.site.org"}'),
        ('query={"pdu.outlet-watts", node=`{short}`}', '{"pdu.outlet-watts", node=`node7`}'),
        ("query=rate(outlet_joules_total{node='{short}'}[5m])", "rate(outlet_joules_total{node='node7'}[5m])"),
        ('query=sum by (node) (w{node=~"{short}|other"})', 'sum by (node) (w{node=~"node7|other"})'),
        ("query=outlet_watts%7Bnode=%22{short}%22%7D", 'outlet_watts{node="node7"}'),
        ('query=w{ort="Züri"}', 'w{ort="Züri"}'),
        ('query=a{node="{short}"} + b', 'a{node="node7"} + b'),
        ("query=a+b%2Bc", "a+b+c"),
        ("query=a % 2", "a % 2"),
        ("query=a%(b)", "a%(b)"),
    ],
)
def test_a_question_is_written_as_it_is_meant_case_ceems_523(template: str, asked: str) -> None:
    url = question_url(check_question(f"https://prom/api/v1/query?{template}"), NodeNameRule(), "node7.site.org")

    assert read_by_a_service(url) == {"query": [asked]}
    assert not re.search("%(?![0-9A-F]{2})", url)  # servers that are stricter than ours refuse it
    assert url.isascii()
    assert not set(url) & set('{}"` |<>')


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("https://prom/?query=up{nodes}", "expected {node}"),
        ("https://prom/?query={host}", "expected {node}"),
        ("https://{host}/?query=up", "expected {node}"),
        ("https://a b/?query=up", "https://"),
        ("https://prom/?query=up{a='b'}&token=abc", "in a file"),
        ("https://prom/?query=up\nGET /", "in one line"),
    ],
)
def test_a_wrong_question_is_refused(template: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check_question(template)


@given(st.text(max_size=60))
def test_any_question_is_one_address_or_refused(text: str) -> None:
    try:
        url = question_url(check_question(f"https://prom/?query={text}"), NodeNameRule(), "node7")
    except (ValueError, Unavailable):
        return
    assert url.isascii()
    assert " " not in url
    assert urlsplit(url).hostname == "prom"
