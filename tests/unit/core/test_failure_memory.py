from kwhere.core.failure_memory import QUIET_NS, FailureMemory


def test_failure_is_told_on_change_then_hourly_with_a_count() -> None:
    memory = FailureMemory()

    assert memory.failed("disk", "full", 0) == 1
    assert memory.failed("disk", "full", 10) is None
    assert memory.failed("disk", "full", QUIET_NS - 1) is None
    assert memory.failed("disk", "full", QUIET_NS) == 3
    assert memory.failed("disk", "full", QUIET_NS + 1) is None
    assert memory.failed("disk", "read only", QUIET_NS + 2) == 1


def test_subjects_are_told_apart() -> None:
    memory = FailureMemory()

    assert memory.failed("disk", "full", 0) == 1
    assert memory.failed("network", "full", 0) == 1


def test_recovery_is_told_once() -> None:
    memory = FailureMemory()
    memory.failed("disk", "full", 0)

    assert memory.recovered("disk")
    assert not memory.recovered("disk")
    assert memory.failed("disk", "full", 1) == 1
