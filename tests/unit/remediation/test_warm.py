"""Which worker stands by behind a reservation, which takes work, and who keeps his hands off."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.names import REASON_REGISTERS, REASON_UNRESERVED
from sparewheel.api.remediation import Outcome
from sparewheel.remediation.decide.observations import SlurmNodeView
from sparewheel.remediation.decide.slurm_return import slurm_reason
from sparewheel.remediation.decide.warm import (
    OUT,
    InHand,
    Place,
    Reservation,
    WarmAction,
    Worker,
    clearing_actions,
    gone_for_good,
    left_behind,
    next_actions,
    place_of,
    protected,
    remember_drained,
    struck_since,
)
from tests.support.clocks import START
from tests.support.incidents import at, claimed, fenced, remediation, worker

NOW = START
OWNER = "pool/gpu"
LASTING = Reservation(("gpu-2",), NOW + timedelta(days=365))
REGISTERED = SlurmNodeView("gpu-2", frozenset({"IDLE", "DRAIN"}), REASON_REGISTERS)
IDLE = SlurmNodeView("gpu-2", frozenset({"IDLE"}))


def host(phase: HostPhase, owner: str = "") -> GpuHost:
    claim = Claim(owner=owner, time=NOW) if owner else None
    return GpuHost(
        metadata=ObjectMeta(name="h3"),
        spec=GpuHostSpec(pool="gpu", host="h3", provider_id="machines://h3"),
        status=GpuHostStatus(phase=phase, node_name="h3", claim=claim),
    )


@pytest.mark.parametrize(
    ("phase", "owner", "place"),
    [
        (HostPhase.ACTIVE, "", Place.MEMBER),
        (HostPhase.ACTIVE, "remediation/closed", Place.MEMBER),
        (HostPhase.ACTIVE, "remediation/open", Place.OTHERS),
        (HostPhase.SPARE, "", Place.SPARE),
        (HostPhase.SPARE, OWNER, Place.SPARE),
        (HostPhase.SPARE, "remediation/open", Place.OTHERS),
        (HostPhase.SPARE, "remediation/closed", Place.OTHERS),
        (HostPhase.CHECKING, OWNER, Place.SPARE),
        (HostPhase.CHECKING, "remediation/open", Place.OTHERS),
        (HostPhase.DRAINING, OWNER, Place.OTHERS),
        (HostPhase.QUARANTINED, "", Place.OTHERS),
    ],
)
def test_the_host_tells_what_its_worker_is(phase: HostPhase, owner: str, place: Place) -> None:
    taken = InHand(owners={"remediation/open"}, nodes={"elsewhere"})
    assert place_of(worker(node_name="h3"), {"h3": host(phase, owner)}, taken, OWNER) is place


def test_a_struck_node_and_a_struck_worker_are_their_incidents() -> None:
    hosts = {"h3": host(HostPhase.ACTIVE)}
    assert place_of(worker(node_name="h3"), hosts, InHand(nodes={"h3"}), OWNER) is Place.OTHERS
    assert place_of(worker(node_name=""), hosts, InHand(struck={"gpu-0"}), OWNER) is Place.OTHERS
    assert place_of(worker(node_name=""), hosts, InHand(), OWNER) is Place.NOWHERE
    assert place_of(worker(node_name="h9"), hosts, InHand(), OWNER) is Place.OTHERS
    leaving = worker(node_name="h3", deletion_due=at(9))
    assert place_of(leaving, hosts, InHand(), OWNER) is Place.OTHERS


def test_a_claim_in_an_incidents_journal_counts_before_it_is_seen_on_the_host() -> None:
    hosts = {"h3": host(HostPhase.SPARE)}
    assert place_of(worker(node_name="h3"), hosts, InHand(spares={"h3"}), OWNER) is Place.OTHERS
    assert place_of(worker(node_name="h3"), hosts, InHand(spares={""}), OWNER) is Place.SPARE


def test_a_pool_without_warm_spares_lifts_what_they_left_on_members_and_touches_no_other_word() -> None:
    member = spare(place=Place.MEMBER, slurm=REGISTERED, reservation=LASTING)
    assert clearing_actions(member) == (WarmAction.RESUME,), "the reservation says whose drain it is: it goes last"
    assert clearing_actions(spare(place=Place.MEMBER, reservation=LASTING)) == (WarmAction.LIFT,)
    assert clearing_actions(spare(slurm=REGISTERED, reservation=LASTING)) == ()
    for words in ("bad HBM, kim", "slurm-operator: Pod is terminating", slurm_reason("gpu-7-xid-79-0", "XID 79")):
        drained = SlurmNodeView("gpu-2", frozenset({"IDLE", "DRAIN"}), words)
        assert clearing_actions(spare(place=Place.MEMBER, slurm=drained)) == ()
    kims = SlurmNodeView("gpu-2", frozenset({"IDLE", "DRAIN"}), "bad HBM, kim")
    assert clearing_actions(spare(place=Place.MEMBER, slurm=kims, reservation=LASTING)) == (WarmAction.LIFT,)


def test_a_drain_of_ours_is_remembered_under_slinkys_words_until_somebody_else_speaks() -> None:
    def drained(words: str) -> SlurmNodeView:
        return SlurmNodeView("gpu-2", frozenset({"IDLE", "DRAIN"}), words)

    terminated = drained("slurm-operator: Pod is terminating")
    assert remember_drained((), [terminated]) == set(), "whose it was is not known"
    ours = remember_drained((), [drained(REASON_REGISTERS)])
    assert remember_drained(ours, [terminated]) == {"gpu-2"}
    assert clearing_actions(spare(place=Place.MEMBER, slurm=terminated), ours) == (WarmAction.RESUME,)
    assert remember_drained(ours, [drained("bad HBM, kim")]) == set()
    assert remember_drained(ours, [IDLE]) == set(), "it served since"


def spare(**fields: object) -> Worker:
    values: dict[str, object] = {"name": "gpu-2", "place": Place.SPARE, "ready": True, "slurm": IDLE}
    return Worker(**{**values, **fields})  # pyright: ignore[reportArgumentType]


def test_a_spare_is_reserved_before_it_is_in_service() -> None:
    assert next_actions(spare(slurm=REGISTERED), NOW) == (WarmAction.RESERVE,)
    assert next_actions(spare(slurm=REGISTERED, reservation=LASTING), NOW) == (WarmAction.RESUME,)
    assert next_actions(spare(reservation=LASTING), NOW) == ()


def test_a_member_serves() -> None:
    member = spare(place=Place.MEMBER, slurm=REGISTERED, reservation=LASTING)
    assert next_actions(member, NOW) == (WarmAction.LIFT, WarmAction.RESUME)
    assert next_actions(spare(place=Place.MEMBER), NOW) == ()


def test_what_slurm_does_not_know_registers_drained_and_is_left() -> None:
    assert next_actions(spare(slurm=None), NOW) == ()


@pytest.mark.parametrize("fields", [{"ready": False}, {"cordoned": True}])
def test_a_worker_that_does_not_answer_or_is_cordoned_stays_out(fields: dict[str, bool]) -> None:
    assert next_actions(spare(slurm=REGISTERED, reservation=LASTING, **fields), NOW) == ()
    silent = SlurmNodeView("gpu-2", frozenset({"DOWN", "NOT_RESPONDING"}), REASON_REGISTERS)
    assert next_actions(spare(slurm=silent, reservation=LASTING), NOW) == ()


def test_a_reservation_is_renewed_long_before_it_ends_and_made_right() -> None:
    for poor in (Reservation(("gpu-1",), None), Reservation(("gpu-2",), NOW + timedelta(days=30))):
        assert next_actions(spare(reservation=poor), NOW) == (WarmAction.RESERVE,)
    assert protected(spare(reservation=Reservation(("gpu-2",), None)), NOW)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        (REASON_REGISTERS, True),
        (REASON_UNRESERVED, True),
        (slurm_reason("gpu-7-xid-79-0", "XID 79 on GPU 3"), True),
        ("slurm-operator: Pod is terminating", True),
        ("", True),
        ("bad HBM, kim", False),
        ("Epilog error", False),
        ("sparewheel: GPU check failed", False),
        ("slurm-operator: maintenance", False),
    ],
)
def test_whose_reason_is_left_behind(reason: str, ours: bool) -> None:
    assert left_behind(reason) is ours


def test_an_admitted_spare_that_another_incident_struck_is_that_ones() -> None:
    ours, theirs = claimed(fenced("ours")), fenced("theirs")
    ours.status.replacement.spare_node = theirs.spec.node = "spare-1"
    assert "theirs" in struck_since(ours, [ours, theirs])
    assert struck_since(ours, [ours, remediation("detected", node="spare-1")]) == "", "nothing was done yet"
    theirs.status.outcome = Outcome.CANCELLED
    assert struck_since(ours, [ours, theirs]) == "", "it serves on"


STATES = st.frozensets(st.sampled_from(["IDLE", "DOWN", "DRAIN", "ALLOCATED", "NOT_RESPONDING", "MAINTENANCE"]))
RESERVATIONS = st.sampled_from([None, LASTING, Reservation(("gpu-1",), None), Reservation(("gpu-2",), NOW)])
REASONS = st.sampled_from(["", REASON_REGISTERS, "bad HBM", "slurm-operator: Pod is terminating"])


@given(
    place=st.sampled_from(Place),
    ready=st.booleans(),
    cordoned=st.booleans(),
    slurm=st.none() | st.builds(SlurmNodeView, st.just("gpu-2"), STATES, REASONS),
    reservation=RESERVATIONS,
)
def test_never_in_service_without_protection(
    place: Place, ready: bool, cordoned: bool, slurm: SlurmNodeView | None, reservation: Reservation | None
) -> None:
    found = Worker("gpu-2", place, "node-2", ready, cordoned, slurm, reservation)
    actions = next_actions(found, NOW)
    if place is not Place.MEMBER:
        assert WarmAction.LIFT not in actions
        assert WarmAction.RESUME not in actions or protected(found, NOW)
    else:
        assert WarmAction.RESERVE not in actions
    if place is Place.OTHERS:
        assert actions == ()
    if WarmAction.RESUME in actions:
        assert slurm is not None
        assert slurm.states & OUT
        assert slurm.reason != "bad HBM"


@pytest.mark.parametrize(
    ("states", "reason", "gone"),
    [
        ({"IDLE", "DRAIN", "NOT_RESPONDING"}, "slurm-operator: Pod is terminating", True),
        ({"DOWN", "DRAIN"}, REASON_REGISTERS, True),
        ({"IDLE", "DRAIN"}, "slurm-operator: Pod is terminating", False),
        ({"DOWN"}, "bad HBM, ask Kim", False),
        ({"DOWN"}, "Not responding", False),
        ({"IDLE", "NOT_RESPONDING"}, "slurm-operator: Pod is terminating", False),
        ({"DOWN", "DRAIN", "COMPLETING"}, REASON_REGISTERS, False),
    ],
)
def test_a_slurm_node_that_no_worker_will_be_again(states: set[str], reason: str, gone: bool) -> None:
    """Silent, out of service by our word or Slinky's, and its pool has all its workers without it."""
    node = SlurmNodeView("gpu-2", frozenset(states), reason)
    pods = [worker(hostname=f"gpu-{ordinal}") for ordinal in range(2)]
    assert gone_for_good([node], pods, 2, (), ()) == (["gpu-2"] if gone else [])
    assert gone_for_good([node], pods[:1], 2, (), ()) == [], "a worker lacks: it may be made by this name"
    assert gone_for_good([node], [*pods, worker(hostname="gpu-2")], 2, (), ()) == [], "its worker is still there"
    assert gone_for_good([node], pods, 2, {"gpu-2"}, ()) == gone_for_good([node], pods, 2, (), {"gpu-2"}) == []
