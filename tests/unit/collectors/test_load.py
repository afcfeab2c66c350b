from tests.recorded_hosts import open_host, said_at_both_moments

from kwhere.collectors.load import plugin


def test_load_averages() -> None:
    before, after = said_at_both_moments(plugin, open_host("oar-v1"))

    assert list(before.values()) == [0.52, 0.41, 0.33]
    assert after["kwhere_node_load1", ()] == 1.24
