"""The API over real HTTP: pages, watches, what is forgotten, what breaks off, credentials."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.emission_services import HandClock, said, serving
from tests.kubernetes_api import NOTEBOOKS, PODS, TOKEN, FakeKubernetes, kubernetes
from tests.kubernetes_objects import pod
from tests.unit.agent.certificates import Authority, make_authority

from kwhere.core.clock import SystemClock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.json_answer import JsonValue
from kwhere.discovery.kubernetes_objects import name_of
from kwhere.resource_managers.kubernetes_access import Access, find_access
from kwhere.resource_managers.kubernetes_api import Gone, KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.transport.settings import HttpClientSettings


@pytest.fixture
def cluster() -> Iterator[FakeKubernetes]:
    with kubernetes() as one:
        one.longest_watch_seconds = 0.5
        yield one


_OPEN: list[KubernetesApi] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def opened(source: KubernetesApi) -> KubernetesApi:
    _OPEN.append(source)
    return source


class Waits:
    """How long was waited; nobody does."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def api(cluster: FakeKubernetes, page_size: int = 500, wait: Waits | None = None) -> KubernetesApi:
    access = Access(cluster.url, HttpClientSettings(read_timeout_seconds=2), TOKEN)
    return opened(KubernetesApi(access, SystemClock(), wait or Waits(), page_size))


def fill(cluster: FakeKubernetes, count: int) -> None:
    for number in range(count):
        cluster.put(PODS, pod(f"p{number:03}"))


def names(items: tuple[JsonValue, ...]) -> list[str]:
    return [name_of(item) for item in items]


def test_a_list_is_read_by_pages(cluster: FakeKubernetes) -> None:
    fill(cluster, 7)

    found = api(cluster, page_size=3).list_all(PODS)

    assert names(found.items) == [f"p{number:03}" for number in range(7)]
    assert found.version == "107"
    assert [query["limit"] for query in cluster.asks(PODS)] == ["3", "3", "3"]


def test_a_list_whose_version_is_forgotten_between_pages_begins_anew(cluster: FakeKubernetes) -> None:
    fill(cluster, 7)
    cluster.faults.forget_pages = 1

    found = api(cluster, page_size=3).list_all(PODS)

    assert len(names(found.items)) == len(set(names(found.items))) == 7


def test_a_list_that_is_forgotten_again_and_again_is_an_error(cluster: FakeKubernetes) -> None:
    fill(cluster, 600)
    cluster.faults.forget_pages = 99

    with pytest.raises(Unavailable, match="forgotten 4 times"):
        api(cluster, page_size=3).list_all(PODS)


def test_an_empty_cluster_is_an_empty_list(cluster: FakeKubernetes) -> None:
    assert api(cluster).list_all(PODS).items == ()


def test_a_watch_tells_what_happened_since(cluster: FakeKubernetes) -> None:
    fill(cluster, 2)
    source = api(cluster)
    version = source.list_all(PODS).version
    cluster.put(PODS, pod("p000", status={"phase": "Succeeded"}))
    cluster.delete(PODS, "p001", "team-a")
    cluster.put(PODS, pod("new"))

    heard = source.watch(PODS, version, 1)

    assert [(kind, name_of(item)) for kind, item in heard.events] == [
        ("MODIFIED", "p000"),
        ("DELETED", "p001"),
        ("ADDED", "new"),
    ]
    assert source.watch(PODS, heard.version, 1).events == ()


def test_a_bookmark_moves_the_version_on(cluster: FakeKubernetes) -> None:
    source = api(cluster)
    version = source.list_all(PODS).version
    cluster.put("/api/v1/nodes", {"metadata": {"name": "n1"}})  # nothing about pods

    heard = source.watch(PODS, version, 1)

    assert (version, heard.version) == ("100", "101")


def test_a_watch_hears_what_happens_meanwhile(cluster: FakeKubernetes) -> None:
    source = api(cluster)
    version = source.list_all(PODS).version
    later = threading.Timer(0.3, lambda: cluster.put(PODS, pod("late")))
    later.start()

    heard = source.watch(PODS, version, 1)

    later.join()
    assert [name_of(item) for _, item in heard.events] == ["late"]


@pytest.mark.parametrize("by_event", [False, True])
def test_a_version_that_is_forgotten_is_gone(cluster: FakeKubernetes, by_event: bool) -> None:
    source = api(cluster)
    version = source.list_all(PODS).version
    cluster.put(PODS, pod("p"))
    cluster.forget()
    cluster.faults.error_event = by_event

    with pytest.raises(Gone):
        source.watch(PODS, version, 1)


@pytest.mark.parametrize("cut_after", [1, 40, 500, 900])
def test_a_watch_that_breaks_off_goes_on_where_it_broke(cluster: FakeKubernetes, cut_after: int) -> None:
    waits = Waits()
    source = api(cluster, wait=waits)
    version = source.list_all(PODS).version
    fill(cluster, 4)
    cluster.faults.cut_after = cut_after

    heard = source.watch(PODS, version, 2)

    assert [name_of(item) for _, item in heard.events] == ["p000", "p001", "p002", "p003"]
    assert len(waits.seconds) == 1
    assert 0 < waits.seconds[0] <= 0.1


@pytest.mark.slow
def test_a_watch_outlives_a_restart_of_the_api(cluster: FakeKubernetes) -> None:
    cluster.longest_watch_seconds = 60
    source = opened(KubernetesApi(Access(cluster.url, HttpClientSettings(), TOKEN), SystemClock()))
    version = source.list_all(PODS).version
    heard: list[str] = []
    watching = threading.Thread(
        target=lambda: heard.extend(name_of(item) for _, item in source.watch(PODS, version, 4).events)
    )
    watching.start()
    while not cluster.asks(PODS, watch="true"):
        time.sleep(0.01)
    cluster.put(PODS, pod("before"))
    time.sleep(0.2)

    cluster.stop()
    cluster.put(PODS, pod("meanwhile"))
    time.sleep(0.3)
    cluster.start()
    cluster.put(PODS, pod("after"))
    watching.join()

    assert heard == ["before", "meanwhile", "after"]


def test_without_bookmarks_the_version_stays_and_nothing_is_lost(cluster: FakeKubernetes) -> None:
    source = api(cluster)
    cluster.faults.bookmarks = False
    version = source.list_all(PODS).version
    cluster.put("/api/v1/nodes", {"metadata": {"name": "n1"}})

    quiet = source.watch(PODS, version, 1)
    cluster.put(PODS, pod("p"))
    heard = source.watch(PODS, quiet.version, 1)

    assert quiet.version == version
    assert [name_of(item) for _, item in heard.events] == ["p"]


def test_a_list_stays_of_one_version_while_pods_come_and_go(cluster: FakeKubernetes) -> None:
    fill(cluster, 5)
    pages: list[list[str]] = []

    def read(items: Sequence[JsonValue]) -> list[str]:
        if not pages:
            cluster.delete(PODS, "p004", "team-a")
            cluster.put(PODS, pod("a-new-one"))
        pages.append([name_of(item) for item in items])
        return pages[-1]

    found = api(cluster, page_size=2).list_as(PODS, read)

    assert found.items == ("p000", "p001", "p002", "p003", "p004")
    later = api(cluster).watch(PODS, found.version, 1)
    assert [(kind, name_of(item)) for kind, item in later.events] == [("DELETED", "p004"), ("ADDED", "a-new-one")]


def test_an_api_that_is_busy_for_a_moment_is_asked_again_when_it_said(cluster: FakeKubernetes) -> None:
    waits = Waits()
    source = api(cluster, wait=waits)
    version = source.list_all(PODS).version
    cluster.put(PODS, pod("p"))
    cluster.faults.status, cluster.faults.times, cluster.faults.retry_after = 429, 2, "1"

    heard = source.watch(PODS, version, 5)

    assert [name_of(item) for _, item in heard.events] == ["p"]
    assert len(waits.seconds) == 2
    assert all(seconds >= 0.5 for seconds in waits.seconds)


def test_an_api_that_is_down_is_asked_at_longer_and_longer_intervals() -> None:
    clock = HandClock()
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.ahead(seconds=seconds)

    source = KubernetesApi(Access("http://127.0.0.1:9", HttpClientSettings(), TOKEN), clock, wait)

    with pytest.raises(Unavailable) as caught:
        source.watch(PODS, "1", 20)

    assert caught.value.reason == "refused"
    assert 3 <= len(waited) <= 12
    assert sum(waited) <= 20
    assert all(0.5 * 0.1 * 2**n <= min(seconds, 8) <= 8 for n, seconds in enumerate(waited[:6]))


def test_an_api_that_asks_to_be_left_alone_is(cluster: FakeKubernetes) -> None:
    waits = Waits()
    cluster.faults.status, cluster.faults.retry_after = 429, "30"

    with pytest.raises(Unavailable) as caught:
        api(cluster, wait=waits).watch(PODS, "100", 2)

    assert caught.value.retry_after_seconds == 30
    assert waits.seconds == []
    assert len(cluster.asked) == 1


def test_what_is_no_event_is_an_error(cluster: FakeKubernetes) -> None:
    source = api(cluster)
    cluster.faults.garbage = True

    with pytest.raises(SourceError, match="expected JSON"):
        source.watch(PODS, "100", 1)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "permission"), (403, "permission"), (404, "absent"), (429, "busy"), (500, "busy"), (503, "busy")],
)
def test_refusals_say_which(cluster: FakeKubernetes, status: int, reason: str) -> None:
    cluster.faults.status = status
    cluster.faults.retry_after = "7"

    with pytest.raises(Unavailable) as caught:
        api(cluster).list_all(PODS)

    assert caught.value.reason == reason
    assert "etcdserver: leader changed" in str(caught.value)
    assert caught.value.retry_after_seconds == (7 if reason == "busy" else None)
    assert TOKEN not in str(caught.value)


def test_case_users_45_no_permission_is_told_and_is_not_an_empty_list(cluster: FakeKubernetes) -> None:
    cluster.faults.forbidden.add(PODS)

    for ask in (lambda: api(cluster).list_all(PODS), lambda: api(cluster).watch(PODS, "100", 1)):
        with pytest.raises(Unavailable, match="not permitted: pods is forbidden"):
            ask()


def test_a_kind_that_is_not_installed_is_absent(cluster: FakeKubernetes) -> None:
    with pytest.raises(Unavailable) as caught:
        api(cluster).list_all(NOTEBOOKS)

    assert caught.value.reason == "absent"


def test_a_proxys_page_is_no_list(cluster: FakeKubernetes) -> None:
    cluster.faults.html = True

    with pytest.raises(SourceError, match="found HTML"):
        api(cluster).list_all(PODS)


@pytest.mark.parametrize("document", [{}, {"items": []}, {"status": "ok"}, {"metadata": {"resourceVersion": "1"}}])
def test_another_object_is_not_an_empty_cluster(document: object) -> None:
    with serving(lambda asked: said(document), HandClock()) as service:
        access = Access(service.url, HttpClientSettings(), TOKEN)

        with pytest.raises(SourceError, match="expected a list of items with its version"):
            opened(KubernetesApi(access, SystemClock(), Waits())).list_all(PODS)


def test_an_empty_list_may_be_written_as_null() -> None:
    empty = {"metadata": {"resourceVersion": "1"}, "items": None}
    with serving(lambda asked: said(empty), HandClock()) as service:
        access = Access(service.url, HttpClientSettings(), TOKEN)

        assert opened(KubernetesApi(access, SystemClock(), Waits())).list_all(PODS).items == ()


def test_a_page_that_names_itself_as_the_next_is_an_error() -> None:
    page = {"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []}
    with serving(lambda asked: said(page), HandClock()) as service:
        access = Access(service.url, HttpClientSettings(), TOKEN)

        with pytest.raises(SourceError, match="found the same again"):
            opened(KubernetesApi(access, SystemClock(), Waits())).list_all(PODS)


def test_a_slow_api_is_a_timeout(cluster: FakeKubernetes) -> None:
    cluster.faults.slow = True
    access = Access(cluster.url, HttpClientSettings(read_timeout_seconds=0.2), TOKEN)

    with pytest.raises(Unavailable) as caught:
        opened(KubernetesApi(access, SystemClock(), Waits())).list_all(PODS)

    assert caught.value.reason == "timeout"


def test_a_token_that_was_renewed_is_read_again(cluster: FakeKubernetes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    settings = KubernetesSettings(
        manager="kubernetes", cluster="k1", url=cluster.url, http=HttpClientSettings(token_file=file)
    )
    source = opened(KubernetesApi(find_access(settings), SystemClock(), Waits()))
    source.list_all(PODS)
    cluster.token = "another-t0ken"

    with pytest.raises(Unavailable) as caught:
        source.list_all(PODS)
    file.write_text("another-t0ken\n")
    found = source.list_all(PODS)

    assert caught.value.reason == "permission"
    assert found.items == ()
    assert source.watch(PODS, found.version, 1).events == ()
    file.unlink()
    with pytest.raises(Unavailable) as lost:
        source.list_all(PODS)
    assert lost.value.reason == "credentials"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


def test_tls_is_verified(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    own = HttpClientSettings(token_file=tmp_path / "token")

    def list_pods(http: HttpClientSettings) -> int:
        settings = KubernetesSettings(manager="kubernetes", cluster="k1", url=served.url, http=http)
        return len(opened(KubernetesApi(find_access(settings), SystemClock(), Waits())).list_all(PODS).items)

    with kubernetes(authority.issue("api")) as served:
        served.put(PODS, pod("p"))

        assert list_pods(own.model_copy(update={"ca_file": authority.ca_file})) == 1
        with pytest.raises(Unavailable) as caught:
            list_pods(own)

    assert caught.value.reason == "tls"
