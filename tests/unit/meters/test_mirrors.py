from kwhere.meters.mirrors import MirrorWatch

RANGE = 65_532_610_987
NEAR, FAR = [10**9, 10**9 + 70_000], [10**9, 2 * 10**9]


def test_intel_dies_are_never_mirrors() -> None:
    watch = MirrorWatch("GenuineIntel")

    assert not any(watch.are_mirrors([5, 5], RANGE) for _ in range(5))


def test_one_unequal_pair_does_not_make_mirrors_genuine() -> None:
    watch = MirrorWatch("AuthenticAMD")
    watch.are_mirrors(NEAR, RANGE)

    assert watch.are_mirrors(FAR, RANGE)
    assert watch.are_mirrors(FAR, RANGE)
    assert not watch.are_mirrors(FAR, RANGE)


def test_dies_that_differ_at_first_are_mirrors_once_they_agree() -> None:
    watch = MirrorWatch("AuthenticAMD")

    assert not watch.are_mirrors(FAR, RANGE)
    assert watch.are_mirrors(NEAR, RANGE)


def test_mirrors_on_both_sides_of_a_wrap_agree() -> None:
    assert MirrorWatch("AuthenticAMD").are_mirrors([RANGE - 1_000, 2_000], RANGE)
    assert not MirrorWatch("AuthenticAMD").are_mirrors([RANGE - 1_000, 2_000], None)


def test_a_die_that_cannot_be_read_changes_no_verdict() -> None:
    watch = MirrorWatch(None)

    before = watch.are_mirrors([5], RANGE)
    watch.are_mirrors(NEAR, RANGE)

    assert not before
    assert watch.are_mirrors([5], RANGE)
    assert watch.are_mirrors([], RANGE)
