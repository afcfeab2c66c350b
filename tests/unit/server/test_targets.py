"""Whom the server reads, and to whom it shows what."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ledger.journals import StandingClock

from kwhere.core.errors import ConfigError
from kwhere.server import discovery_sources
from kwhere.server.discovered import Discovered
from kwhere.server.settings import TargetGroup
from kwhere.server.target import Target
from kwhere.server.targets import Targets, check_url, is_named, without_credentials
from kwhere.transport.settings import HttpClientSettings


def group(**more: object) -> TargetGroup:
    return TargetGroup.model_validate({"name": "g", "cluster": "c", **more})


def targets(*groups: TargetGroup) -> Targets:
    made = Targets(groups, StandingClock())
    made.refresh()
    return made


def urls(made: Targets) -> list[str]:
    return [target.url for target in made.current()]


def write(path: Path, *addresses: str, **labels: str) -> Path:
    path.write_text(json.dumps([{"targets": list(addresses), "labels": labels}]))
    return path


def test_configured_targets_need_no_discovery() -> None:
    made = Targets([group(urls=["https://n1.example:9810/", "http://127.0.0.1:9810"])], StandingClock())

    first, second = made.current()

    assert (first.url, first.cluster, first.group, first.may_see_credentials) == (
        "https://n1.example:9810",
        "c",
        "g",
        True,
    )
    assert second.url == "http://127.0.0.1:9810"
    assert first.ceiling_mw == 20_000_000


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"server\.targets: expected a different name"):
        Targets([group(), group()], StandingClock())


def test_an_address_is_read_once_for_the_first_that_names_it(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", "n1:1", "n2:1")
    one = group(urls=["https://n1:1"])
    two = group(name="h", cluster="d", files=[path])

    made = targets(two, one)

    assert [(target.url, target.cluster) for target in made.current()] == [("https://n1:1", "c"), ("https://n2:1", "d")]


def test_files_are_read_with_labels_and_scheme(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "n1:1", node="node1")
    write(tmp_path / "b.json", "n2:1", __scheme__="http")

    first, second = targets(group(files=[tmp_path / "*.json"])).current()

    assert (first.url, first.node) == ("https://n1:1", "node1")
    assert (second.url, second.node) == ("http://n2:1", None)


def test_a_change_of_a_file_is_noticed_and_a_bad_one_keeps_the_last_good_list(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "a.json", "n1:1"), write(tmp_path / "b.json", "n2:1")
    made = targets(group(files=[tmp_path / "*.json"]))
    write(good, "n1:1", "n3:1")
    bad.write_text('[{"targets": ["n4:1"]')

    made.refresh()
    assert urls(made) == ["https://n1:1", "https://n3:1", "https://n2:1"]

    write(bad, "n4:1", "http://n5:1/path")  # one that cannot be
    made.refresh()
    assert urls(made) == ["https://n1:1", "https://n3:1", "https://n2:1"]

    write(bad, "n5:1")
    made.refresh()
    assert urls(made) == ["https://n1:1", "https://n3:1", "https://n5:1"]


def test_targets_of_a_file_that_is_removed_go_but_a_named_one_keeps_them(tmp_path: Path) -> None:
    named, other = write(tmp_path / "named.json", "n1:1"), write(tmp_path / "other.yml", "n2:1")
    made = targets(group(files=[named, tmp_path / "*.yml"]))
    named.unlink()
    other.unlink()

    made.refresh()

    assert urls(made) == ["https://n1:1"]


def credentials(tmp_path: Path) -> dict[str, object]:
    token = tmp_path / "token"
    token.write_text("secret-of-the-group\n")
    token.chmod(0o600)
    return {"token_file": token}


def shown(made: Targets, target: Target) -> str | None:
    """Return the Authorization header that a request to `target` would carry."""
    with made.connect(target) as client:
        return client._remote.headers.get("Authorization")


def test_credentials_are_never_shown_to_a_host_that_only_discovery_named(tmp_path: Path) -> None:
    write(tmp_path / "t.json", "evil.example:1", "https://n7.cluster.example:1", "http://n8.cluster.example:1")
    made = targets(
        group(
            urls=["https://n1.example:1"],
            files=[tmp_path / "t.json"],
            hosts=["*.cluster.example"],
            client=credentials(tmp_path),
        )
    )

    held = {target.url: shown(made, target) for target in made.current()}

    assert held == {
        "https://n1.example:1": "Bearer secret-of-the-group",
        "https://evil.example:1": None,
        "https://n7.cluster.example:1": "Bearer secret-of-the-group",
        "http://n8.cluster.example:1": None,
    }


def test_addresses_of_a_configured_name_must_prove_that_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(discovery_sources, "look_up", lambda name: [Discovered("10.0.0.1:9810")])
    made = targets(group(dns=["agents.example:9810"], client=credentials(tmp_path)))

    (target,) = made.current()

    assert (target.url, target.server_name) == ("https://10.0.0.1:9810", "agents.example")
    assert shown(made, target) == "Bearer secret-of-the-group"
    with made.connect(target) as client:
        assert client._remote.settings.server_name == "agents.example"
    plain = targets(group(dns=["agents.example:9810"], scheme="http", client=credentials(tmp_path)))
    assert shown(plain, plain.current()[0]) is None


def test_without_credentials_trust_stays(tmp_path: Path) -> None:
    settings = HttpClientSettings(
        ca_file=tmp_path / "ca", token_file=tmp_path / "t", client_certificate_file=tmp_path / "c", client_key_file=None
    )

    left = without_credentials(settings)

    assert left == HttpClientSettings(ca_file=tmp_path / "ca")


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("n1.cluster.example", True),
        ("N1.Cluster.Example.", True),
        ("cluster.example", False),
        ("a.n1.cluster.example", False),
        ("n1.cluster.example.evil.org", False),
        ("evil.org", False),
        ("", False),
    ],
)
def test_a_pattern_stands_for_one_label(host: str, named: bool) -> None:
    assert is_named(host, ["*.cluster.example"]) is named


@pytest.mark.parametrize(
    "url",
    [
        "n1:9810",
        "ftp://n1:9810",
        "https://",
        "https://:9810",
        "https://n1:99999",
        "https://n1:x",
        "https://n1:0",
        "https://n1:1/path",
        "https://n1:1?x=1",
        "https://n1:1#x",
        "https://[::1",
        "https://n1:1\n.evil",
        "https://n 1:1",
        "https://n1\\@evil:1",
        "https://bücher:1",
        "https://\ud800:1",
    ],
)
def test_what_is_no_address_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: expected http"):
        check_url(url, "here")


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        check_url("https://me:hunter2@n1:1", "here")
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=40) | st.from_regex(r"https?://\S{0,20}(:\d{0,6})?/?", fullmatch=True))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        url = check_url(text, "here")
    except ConfigError:
        return
    assert check_url(url, "here") == url
    assert "@" not in url


@pytest.mark.parametrize(
    ("url", "node", "expected"),
    [
        ("https://n1.example:1", "n1.example", True),
        ("https://n1.example:1", "n1", True),
        ("https://N1:1", "n1.example", True),
        ("https://n1.example:1", "n2.example", False),
        ("https://n1.example:1", "n1.other", False),
        ("https://n1.example:1", "n", False),
        ("https://10.0.0.1:1", "n2", True),
        ("https://[2001:db8::1]:1", "n2", True),
        ("https://localhost:1", "n2", True),
        ("http://n1.example:1", "n2", True),
    ],
)
def test_a_certificates_name_is_the_nodes(url: str, node: str, expected: bool) -> None:
    assert Target("c", url, checks_name=True).may_serve(node) is expected
    assert Target("c", url, checks_name=False).may_serve(node)


def test_a_label_says_which_node_it_must_be() -> None:
    target = Target("c", "https://n1.example:1", node="gpu7", checks_name=True)

    assert target.may_serve("gpu7")
    assert not target.may_serve("n1")
    assert not target.may_serve("gpu7.example")


def test_a_shared_certificate_names_no_node() -> None:
    (target,) = targets(group(urls=["https://n1:1"], client={"server_name": "agents.example"})).current()

    assert target.may_serve("anything")


def test_discovery_runs_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def look_up(name: str) -> list[Discovered]:
        asked.set()
        answer.wait(20)
        return [Discovered("10.0.0.1:1")]

    monkeypatch.setattr(discovery_sources, "look_up", look_up)
    path = write(tmp_path / "t.json", "n1:1")
    slow = group(dns=["agents.example:1"], urls=["https://n0:1"])
    made = Targets([slow, group(name="h", files=[path], refresh_seconds=0.01)], StandingClock())

    made.start()
    assert asked.wait(20)
    wait_for(lambda: "https://n1:1" in urls(made))
    write(path, "n2:1")
    wait_for(lambda: "https://n2:1" in urls(made))
    assert urls(made) == ["https://n0:1", "https://n2:1"]
    answer.set()
    wait_for(lambda: "https://10.0.0.1:1" in urls(made))

    made.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come")
