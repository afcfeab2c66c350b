"""Nodes and accounts as SLURM shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.managed import Account, Membership
from kwhere.resource_managers.slurm_facts import parse_node_state, parse_pairs, read_accounts, read_nodes

NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=1 CPUEfctv=2 CPUTot=4 CPULoad=N/A AvailableFeatures=a100,ib"
    " ActiveFeatures=a100 Gres=gpu:a100:2(S:0) NodeAddr=127.0.0.1 Version=22.05.8 OS=Linux 6.1 #1 SMP @0"
    "  RealMemory=4000 AllocMem=100 FreeMem=N/A State=MIXED+DRAIN Partitions=main,gpu  BootTime=1795996214"
    " CfgTRES=cpu=2,mem=4000M,billing=2,gres/gpu=2,gres/gpu:a100=2 AllocTRES=cpu=1,mem=100M,gres/gpu:a100=1"
    " CapWatts=n/a ExtSensorsJoules=n/s Reason=disk full, State=IDLE said bob [root@1796003152]"
)


def test_a_node_with_all_it_has_and_gave() -> None:
    (node,) = read_nodes(f"{NODE}\n\n")

    assert (node.name, node.state, node.is_schedulable) == ("n1", "mixed+drain", False)
    assert node.reason is not None
    assert node.reason.startswith("disk full,")
    assert (node.type, node.cpus, node.memory_bytes, node.gpus) == ("a100", 2, 4000 * 1024**2, {"a100": 2})
    assert node.allocated is not None
    assert (node.allocated.cpus, node.allocated.memory_bytes, node.allocated.gpus) == (1, 100 * 1024**2, {"a100": 1})
    assert node.queues == ("main", "gpu")


def test_values_hold_spaces_and_the_first_of_two_stands() -> None:
    pairs = parse_pairs("A=1 Os=Linux 6 #1 x=y Reason=b A=2")

    assert pairs == {"A": "1", "Os": "Linux 6 #1 x=y", "Reason": "b"}


def test_case_users_20_long_names_are_whole() -> None:
    name = "a-very-long-node-name-that-columns-would-have-cut.cluster.example"

    assert [node.name for node in read_nodes(f"NodeName={name} State=IDLE CPUTot=2 Gres=gpu:2")] == [name]


@pytest.mark.parametrize(
    ("text", "state", "is_open"),
    [
        ("IDLE", "idle", True),
        ("ALLOCATED", "allocated", True),
        ("MIXED", "mixed", True),
        ("IDLE+CLOUD", "idle+cloud", True),
        ("IDLE~", "idle+powered_down", True),
        ("IDLE#", "idle+powering_up", True),
        ("IDLE+DRAIN", "idle+drain", False),
        ("DRAINED", "drained", False),
        ("DOWN*", "down+not_responding", False),
        ("DOWN*+DRAIN", "down+not_responding+drain", False),
        ("IDLE*", "idle+not_responding", False),
        ("IDLE$", "idle+maint", False),
        ("MAINT", "maint", False),
        ("RESERVED", "reserved", True),
        ("ALLOCATED@", "allocated+reboot", False),
        ("UNKNOWN", "unknown", False),
        ("", "unknown", False),
    ],
)
def test_states_of_nodes(text: str, state: str, is_open: bool) -> None:
    assert parse_node_state(text) == (state, is_open)


def test_accounts_and_members() -> None:
    shown = "root||\nroot|root|\ncfd||root\ncfd|alice|\ncfd_gpu|alice|\nbad line\n"

    found = read_accounts(shown, "cfd|Flow in pipes\nroot|default root account\n", ("_gpu",))

    assert found.accounts == (Account("cfd", "Flow in pipes", "root"), Account("root", "default root account", None))
    assert found.memberships == (Membership("alice", "cfd"), Membership("root", "root"))


@given(st.text() | st.from_regex(r"(NodeName|State|Reason|CfgTRES|A)=[ -~]{0,20}", fullmatch=True))
def test_noise_is_nodes_or_none(text: str) -> None:
    assert all(node.name and node.state for node in read_nodes(text))
    read_accounts(text, text)
