import pytest

from kwhere.energy.limits import p_max_cpu_uw, p_max_gpu_uw, p_max_platform_uw

WATT = 1_000_000


@pytest.mark.parametrize(
    ("dies", "limits_w", "expected_w"),
    [
        (1, [], 500),
        (1, [205, 246], 500),
        (1, [350, 420], 840),
        (2, [350, 420], 1000),
        (2, [600], 1200),
        (1, [0, 3, 4095.875, 18_446_744_073_709], 500),
        (1, [4.999_999], 500),
    ],
)
def test_p_max_of_a_socket_ignores_limits_that_mean_nothing(dies: int, limits_w: list[float], expected_w: int) -> None:
    assert p_max_cpu_uw(dies, [round(limit * WATT) for limit in limits_w]) == expected_w * WATT


def test_p_max_of_gpu_and_platform() -> None:
    assert p_max_gpu_uw(400 * WATT) == 600 * WATT
    assert p_max_platform_uw([500 * WATT, 200 * WATT]) == 2700 * WATT
    assert p_max_platform_uw([500 * WATT], headroom_uw=100 * WATT) == 600 * WATT
