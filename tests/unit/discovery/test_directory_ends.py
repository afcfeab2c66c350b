"""When a unit ended, by the directory that went with its last process; and whom a service runs as."""

from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.discovery.directory_ends import LABEL

HEX = "ab" * 32
PODMAN = "/machine.slice/libpod-" + HEX + ".scope"
NGINX = "/system.slice/nginx.service"


@pytest.fixture
def tree(tmp_path: Path) -> FakeCgroups:
    return FakeCgroups(tmp_path)


@pytest.mark.parametrize("path", [
    f"/docker/{HEX}", PODMAN, NGINX, "/lxc/web", "/user.slice/user-1000.slice/session-3.scope",
    "/kubepods.slice/kubepods-pod8bb3a0a5_7ea8_4bc1_b1d4_1a2b3c4d5e6f.slice",
])  # fmt: skip
def test_the_end_is_told_to_the_second_in_which_the_directory_went(tree: FakeCgroups, path: str) -> None:
    tree.put(path, 4, procs="1\n")
    source = tree.units()
    source.step(tree.clock.tick(1))
    tree.clock.tick(7.5)
    tree.remove(path)

    reading = source.step(tree.clock.now_ns)

    (unit,) = reading.told
    assert unit.key == reading.ended[0].key
    # FakeProc boots at 1 000 000 and starts at 100 s: 1 000 108.5 s, and the first whole second after it
    assert dict(unit.info.labels)[LABEL] == "1000109"
    assert source.step(tree.clock.tick(1)).told == []
    source.close()


def test_a_directory_that_stands_empty_tells_no_end(tree: FakeCgroups) -> None:
    tree.put(f"/docker/{HEX}", 4, procs="1\n")
    source = tree.units()
    source.step(tree.clock.tick(1))
    tree.put(f"/docker/{HEX}", 4)

    readings = [source.step(tree.clock.tick(1)) for _ in range(30)]

    assert [len(unit.ended) for unit in readings].count(1) == 1
    assert not [unit for reading in readings for unit in reading.told]
    source.close()


@pytest.mark.parametrize(("owners", "user"), [
    ({10: (0, 5), 11: (33, 6)}, "root"),  # a master and its workers
    ({11: (26, 9), 10: (26, 5)}, "26"),
    ({10: (1000, 50), 11: (0, 5)}, "root"),  # cron's job is somebody's, cron is not
    ({}, None),
])  # fmt: skip
def test_a_service_is_of_the_user_whose_process_began_first(
    tree: FakeCgroups, owners: dict[int, tuple[int, int]], user: str | None
) -> None:
    for pid, (uid, start) in owners.items():
        tree.proc.process(pid, "x", start=start, uid=uid)
    tree.put(NGINX, 4, procs="".join(f"{pid}\n" for pid in owners) or "99\n")
    source = tree.units(live=False)

    (unit,) = source.step(tree.clock.tick(1)).started

    assert unit.info.user == user
    source.close()


def test_a_service_of_a_user_s_manager_is_that_user_s(tree: FakeCgroups) -> None:
    tree.proc.process(10, "x", start=5, uid=0)
    tree.put("/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.service", 4, procs="10\n")
    source = tree.units(live=False)

    units = source.step(tree.clock.tick(1)).started

    assert {unit.key.unit: unit.info.user for unit in units} == {"app-x.service": "1000", "user@1000.service": "1000"}
    source.close()


def test_all_services_together_are_nobody_s(tree: FakeCgroups) -> None:
    tree.proc.process(10, "x", start=5, uid=26)
    tree.put("/system.slice/kubelet.service", 1, procs="9\n")
    tree.put(NGINX, 4, procs="10\n")
    source = tree.units(live=False)

    units = source.step(tree.clock.tick(1)).started

    assert {unit.key.unit: unit.info.user for unit in units} == {"services": None}
    source.close()
