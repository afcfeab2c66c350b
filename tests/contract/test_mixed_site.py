"""Pages of a site with a bit of everything: what they count, whom they name, what they say where something lacks."""

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest
from tests.asgi_client import AsgiClient
from tests.databases import sqlite_engine
from tests.mixed_site import HOSTS, PROJECTS, USERS, fill_mixed
from tests.two_tenants import NOW, as_user, open_door

PEOPLE: dict[str, object] = {
    "people": [
        {"name": "olga", "roles": ["operator"]},
        {"name": "eve", "roles": ["auditor"]},
        {"name": "pia", "roles": ["project manager"], "projects": [{"name": "aero"}]},
    ]
}
ASKERS = {"olga": 200, "eve": 200, "pia": 403, "alice": 403}
"""Who asks, and what they get of pages of the whole site."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgiClient]:
    place = tmp_path_factory.mktemp("mixed")
    engine = sqlite_engine(place / "mixed.sqlite")
    fill_mixed(engine, NOW, days=2)
    yield open_door(engine, place, PEOPLE)
    engine.dispose()


def text_of(client: AsgiClient, path: str, asker: str = "olga") -> str:
    """Return a page's words, cells parted by `|`."""
    answer = client.get(path, headers=as_user(asker))
    assert answer.status_code == 200, answer.text
    text = re.sub(r"<(script|svg).*?</\1>", "", answer.text, flags=re.DOTALL)
    text = re.sub(r"</(td|th)>", "|", text)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", text)))


def panel(text: str, first: str, following: str) -> str:
    """Return what stands between two headings."""
    return text.partition(f" {first} ")[2].partition(f" {following} ")[0]


def items(client: AsgiClient, path: str) -> list[dict[str, object]]:
    answer = client.get(f"/api/v1{path}", headers=as_user("olga"))
    found: list[dict[str, object]] = answer.json()["items"]
    return found


@pytest.mark.parametrize("asker", ASKERS)
def test_every_page_is_for_somebody(client: AsgiClient, asker: str) -> None:
    everybodys = ["/", "/units", "/clusters", "/queue", "/users", "/projects", "/usage", "/emissions", "/methodology"]
    everybodys += ["/clusters/alpine"]
    sites = ["/nodes", "/clusters/alpine/nodes", *(f"/nodes/{host.short}" for host in HOSTS)]

    answers = {path: client.get(path, headers=as_user(asker)) for path in (*everybodys, *sites)}

    assert {path: answers[path].status_code for path in everybodys} == dict.fromkeys(everybodys, 200)
    assert {path: answers[path].status_code for path in sites} == dict.fromkeys(sites, ASKERS[asker])
    for answer in answers.values():
        assert not re.search(r">\s*(None|nan|inf|True|False)\s*<", answer.text)


@pytest.mark.parametrize("name", [*USERS, *PROJECTS])
def test_odd_names_have_pages(client: AsgiClient, name: str) -> None:
    place = "users" if name in USERS else "projects"

    assert f" {name} " in text_of(client, f"/{place}/{quote(name, safe='')}")


def test_members_of_several_clusters_each_have_their_own_energy(client: AsgiClient) -> None:
    text = panel(text_of(client, "/projects/aero"), "Members", "Running now")
    names = Counter(re.findall(r"(\S+) (alpine|cloud|grid|kube) \|", text))
    used = {
        (row["cluster"], row["key"]): row["energy_joules_total"]
        for row in items(client, "/usage?by=user&project=aero&from=-30d")
        if row["kind"] == "unit"
    }

    assert max(names.values()) == 1
    assert {(cluster, user) for user, cluster in names} >= set(used) - {(None, None)}
    assert len(used) > 3


def test_usage_says_of_which_cluster_a_name_is(client: AsgiClient) -> None:
    text = text_of(client, "/usage?span=7d")

    assert re.search(r"\balice alpine \|", text)
    assert re.search(r"\S (kube|grid|cloud) \|", text)
    assert re.search(r"\bsystem local \|", text)


def test_weeks_of_what_belongs_to_no_unit_say_what_it_is(client: AsgiClient) -> None:
    text = text_of(client, "/usage?by=week&span=14d")

    assert re.search(r"\d{4}-W\d\d system ", text)
    assert re.search(r"\d{4}-W\d\d unallocated ", text)
    assert "last 14 d" in text


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_running_now_is_what_runs(client: AsgiClient, name: str) -> None:
    """Also those of which no power is known: their agent is late, or there is none."""
    running = items(client, f"/units?user={name}&state=running&limit=100")

    text = text_of(client, f"/users/{name}")

    count = len(running)
    assert f"Running now {count} unit{'' if count == 1 else 's'}, by power" in text
    shown = panel(text, "Running now", "Largest units")
    assert all(str(unit["name"] or unit["unit"]) in shown for unit in running)
    assert "running now" not in panel(text, "CPU time used of allocated", "Energy by day")


def test_units_of_a_silent_node_still_run_there(client: AsgiClient) -> None:
    here = items(client, "/units?node=g002&state=running")

    text = text_of(client, "/nodes/g002")

    assert here
    assert all(str(unit["name"]) in panel(text, "Units here now", "No curve") for unit in here)


def test_a_gpu_without_samples_is_not_down(client: AsgiClient) -> None:
    text = text_of(client, "/nodes/g001")

    assert "no figures no store of series is set up." in text
    assert " down " not in panel(text, "GPUs", "Do its meters agree?")


def test_a_unit_that_no_agent_reported_has_no_figures_and_says_why(client: AsgiClient) -> None:
    text = text_of(client, "/units/alpine/slurm/990001")

    assert "Only slurm told of it. No agent has reported it on c006, so nothing of it was measured" in text
    for untrue in ("complete all the same", "It was alone", "too short for a slot", "allocation not known", "Per node"):
        assert untrue not in text


def test_a_cluster_counts_its_nodes_without_an_agent(client: AsgiClient) -> None:
    assert "2 closed, 1 without an agent" in text_of(client, "/clusters/alpine")
    assert "no agent" in panel(text_of(client, "/clusters/alpine/nodes"), "c006", "g001")
    assert [row["nodes_unreported"] for row in items(client, "/clusters/kube/capacity")] == [1]


def test_a_factor_of_the_static_provider_says_so_once(client: AsgiClient) -> None:
    machine = items(client, "/units?manager=libvirt&limit=1")[0]["unit"]

    text = text_of(client, f"/units/cloud/libvirt/{machine}")

    assert "static, zone DE · lifecycle, production · reported" in text


@pytest.mark.parametrize("path", ["/units", "/clusters", "/users", "/projects", "/usage", "/queue"])
def test_who_has_nothing_here_is_told_so_and_whom_to_ask(client: AsgiClient, path: str) -> None:
    text = text_of(client, path, "nobody-knows-her")

    assert "Nothing of yours. You see your own units and those of projects that you manage; for more, ask" in text
    assert "kwhere doctor" not in text


def test_a_managers_project_that_draws_nothing_now_does_not_wait_for_an_agent(client: AsgiClient) -> None:
    text = text_of(client, "/", "pia")

    assert "Waiting for the first slot" not in text


def test_a_user_is_not_led_where_they_may_not_go(client: AsgiClient) -> None:
    text = text_of(client, "/clusters/alpine", "alice")

    assert "/nodes" not in client.get("/clusters/alpine", headers=as_user("alice")).text
    assert text.count("You may not see this.") == 1
    assert ", , " not in text


def test_a_list_shows_the_id_that_the_manager_shows(client: AsgiClient) -> None:
    tasks = [unit for unit in items(client, "/units?manager=slurm&limit=200") if "array_job" in dict(unit["labels"])]  # type: ignore[call-overload]
    shown = str(dict(tasks[0]["labels"])["job"])  # type: ignore[call-overload]

    assert f" {shown} " in text_of(client, f"/units?q={tasks[0]['unit']}")
