"""Each attempt has its own meeting point, on a node that it has."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.resumable.attempt import Attempt
from training.resumable.rendezvous import (
    PORT_COUNT,
    PORT_FIRST,
    RendezvousError,
    ensure_free,
    expand,
    meeting,
    own_address,
    port_of,
)

ADDRESSES = {"gpu-0": "10.78.2.5", "gpu-1": "10.78.3.9", "10.0.0.7": "10.0.0.7", "10.0.0.1": "10.0.0.1"}


def resolve(name: str) -> str:
    try:
        return ADDRESSES[name]
    except KeyError:
        raise OSError(f"{name}: Name or service not known") from None


def environ(nodes: str = "gpu-[0-1]", **more: str) -> dict[str, str]:
    return {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": nodes, "SLURM_NODEID": "1", **more}


@pytest.mark.parametrize(
    ("node_list", "names"),
    [
        ("gpu-0", ["gpu-0"]),
        ("gpu-[0-1,3],cpu7", ["gpu-0", "gpu-1", "gpu-3", "cpu7"]),
        ("n[008-011]", ["n008", "n009", "n010", "n011"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[1-2]x,b-3", ["a1x", "a2x", "b-3"]),
    ],
)
def test_node_lists_are_expanded(node_list: str, names: list[str]) -> None:
    assert expand(node_list) == names


@given(numbers=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20)), min_size=1, max_size=6))
def test_expansion_gives_each_node_in_the_list(numbers: list[tuple[int, int]]) -> None:
    inside = ",".join(f"{first}-{first + more}" for first, more in numbers)
    assert expand(f"gpu-[{inside}]") == [f"gpu-{n}" for first, more in numbers for n in range(first, first + more + 1)]


def test_the_meeting_point_moves_with_the_nodes() -> None:
    before = meeting(Attempt(7, 0), environ(), resolve)
    after = meeting(Attempt(7, 1), environ("gpu-1,gpu-2"), resolve)
    assert (before.host, after.host) == ("10.78.2.5", "10.78.3.9")
    assert before.run_id != after.run_id
    assert before.port != after.port


def test_the_first_node_hosts() -> None:
    assert meeting(Attempt(7, 0), environ() | {"SLURM_NODEID": "0"}, resolve).is_host
    assert not meeting(Attempt(7, 0), environ(), resolve).is_host


def test_the_number_of_nodes_is_the_attempts() -> None:
    assert meeting(Attempt(7, 0), environ("gpu-[0-1]"), resolve).nodes == 2


def test_a_name_that_does_not_resolve_is_looked_up_in_slurm_then_taken_from_srun() -> None:
    assert meeting(Attempt(7, 0), environ("x[0-1]"), resolve, node_address=lambda _name: "10.0.0.7").host == "10.0.0.7"
    assert meeting(Attempt(7, 0), environ("x[0-1]", SLURM_LAUNCH_NODE_IPADDR="10.0.0.1"), resolve).host == "10.0.0.1"


def test_a_loopback_address_is_no_meeting_point_for_two_nodes() -> None:
    found = meeting(Attempt(7, 0), environ(SLURM_LAUNCH_NODE_IPADDR="10.0.0.1"), lambda _name: "127.0.1.1")
    assert found.host == "10.0.0.1"


def test_no_address_at_all_is_an_error_that_names_the_node() -> None:
    with pytest.raises(RendezvousError, match=r"x0, has no address: x0: Name or service not known"):
        meeting(Attempt(7, 0), environ("x[0-1]"), resolve)


def test_without_slurm_it_meets_itself() -> None:
    found = meeting(Attempt(0, 0), {}, lambda _name: pytest.fail("looked up"))
    assert (found.nodes, found.host, found.is_host) == (1, "127.0.0.1", True)


@pytest.mark.parametrize("missing", ["SLURM_STEP_NODELIST", "SLURM_NODEID"])
def test_outside_srun_it_says_so(missing: str) -> None:
    given = environ()
    del given[missing]
    with pytest.raises(RendezvousError, match="start this by srun"):
        meeting(Attempt(7, 0), given, resolve)


@given(job=st.integers(1, 10**7), number=st.integers(0, 30))
def test_ports_stay_out_of_the_kernels_range(job: int, number: int) -> None:
    port = port_of(Attempt(job, number))
    assert PORT_FIRST <= port < PORT_FIRST + PORT_COUNT < 32768
    assert port != port_of(Attempt(job, number + 1))
    assert port != port_of(Attempt(job + 1, 0))


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RendezvousError, match=f"port {port} .* give another one by --port"):
            ensure_free(port)
    ensure_free(port)


def test_the_own_address_is_the_one_towards_the_host() -> None:
    assert own_address("127.0.0.1", 20000) == "127.0.0.1"
