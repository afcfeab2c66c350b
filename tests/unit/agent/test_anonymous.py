from hypothesis import given
from hypothesis import strategies as st

from kwhere.agent.anonymous import NameRemover
from kwhere.core.metrics import Kind, MetricSpec, Sample

KEY = b"k" * 32
INFO = MetricSpec(
    "kwhere_unit_info", Kind.INFO, "Unit.", ("manager", "unit", "run", "name", "user", "project", "runtime")
)
CPUS = MetricSpec("kwhere_unit_cpus", Kind.GAUGE, "CPUs.", ("unit", "manager"))
LOAD = MetricSpec("kwhere_node_load1", Kind.GAUGE, "Load.")


def stripped(*samples: Sample, key: bytes = KEY) -> list[Sample]:
    return NameRemover(key).without_names(samples)


def test_user_project_and_name_are_left_out() -> None:
    sample = Sample(INFO, ("slurm", "42", "42@7", "cfd", "alice", "physics", "runc"), 1)

    assert stripped(sample) == [Sample(INFO, ("slurm", "42", "42@7", "", "", "", "runc"), 1)]


def test_process_group_has_one_pseudonym_in_every_series() -> None:
    [info, cpus] = stripped(
        Sample(INFO, ("process", "alice:cfd", "alice:cfd@7", "cfd", "alice", "", ""), 1),
        Sample(CPUS, ("alice:cfd", "process"), 2.0, 5.0),
    )

    pseudonym = info.labels[1]
    assert info.labels == ("process", pseudonym, f"{pseudonym}@7", "", "", "", "")
    assert cpus == Sample(CPUS, (pseudonym, "process"), 2.0, 5.0)
    assert len(pseudonym) == 16


def test_run_without_a_second_has_the_unit_s_pseudonym() -> None:
    [info] = stripped(Sample(INFO, ("process", "alice:cfd", "alice:cfd", "", "", "", ""), 1))

    assert info.labels[1] == info.labels[2]


def test_pseudonyms_cannot_be_tried_without_the_key() -> None:
    sample = Sample(CPUS, ("alice:cfd", "process"), 1)

    assert stripped(sample) != stripped(sample, key=b"other")


def test_what_names_nobody_stays_the_same_object() -> None:
    sample = Sample(LOAD, (), 1)

    assert stripped(sample)[0] is sample


groups = st.tuples(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8)).map(":".join)


@given(st.lists(groups, unique=True, max_size=10), st.integers(0, 2**33))
def test_groups_stay_apart_and_their_series_unique(found: list[str], boot_s: int) -> None:
    samples = [Sample(INFO, ("process", unit, f"{unit}@{boot_s}", "n", "u", "", ""), 1) for unit in found]

    labels = [sample.labels for sample in stripped(*samples)]

    assert len(set(labels)) == len(found)
    assert all(label[2] == f"{label[1]}@{boot_s}" for label in labels)
