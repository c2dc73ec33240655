"""What a fault asks for: pool over stack over catalogue, exact code over pattern, and what repeats ask for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.fault_policy import FaultPolicy, RepeatRule
from sparewheel.api.faults import Action, Fault, Sighting
from sparewheel.api.remediation import FenceKind, Outcome
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.faults.patterns import closest_first
from sparewheel.remediation.decide.policy import ACTING, repeated, ruling, severity
from sparewheel.remediation.decide.record import fold
from sparewheel.remediation.decide.silence import Silence
from sparewheel.remediation.decide.treated import news, planned, treated_before
from sparewheel.remediation.decide.triage import Fold, New, Report, triage
from tests.support.incidents import at, fault, fenced, node, pool, remediation

codes = st.sampled_from(["XID 63", "XID *", "XID 79", "GPU_*"])
actions = st.none() | st.sampled_from(Action)
rules = st.lists(
    st.builds(FaultPolicy, code=codes, action=actions, detect_only=st.none() | st.booleans()),
    max_size=4,
    unique_by=lambda rule: rule.code,
)


# -------------------------------------------------------------------- precedence
@given(pool_rules=rules, stack_rules=rules)
def test_the_first_rule_that_says_something_decides(
    pool_rules: list[FaultPolicy], stack_rules: list[FaultPolicy]
) -> None:
    seen = fault("XID 63", action=Action.RECORD)
    order = [
        rule
        for place in (pool_rules, stack_rules)
        for code in ("XID 63", "XID *")
        for rule in place
        if rule.code == code
    ]
    found = ruling(seen, pool_rules, stack_rules)
    assert found.action is next((rule.action for rule in order if rule.action is not None), Action.RECORD)
    assert found.detect_only is next((rule.detect_only for rule in order if rule.detect_only is not None), False)


def test_a_pools_pattern_wins_over_the_stacks_exact_code_and_the_record_says_which_rule_it_was() -> None:
    found = ruling(
        fault("XID 63"),
        [FaultPolicy(code="XID *", action=Action.CORDON)],
        [FaultPolicy(code="XID 63", action=Action.REPLACE, dry_run=True)],
    )
    assert (found.action, found.dry_run) == (Action.CORDON, True), "each setting by itself"
    assert found.because == "this pool's rule for XID *"
    assert ruling(fault("XID 64"), [], []).because == "the fault catalogue"


def test_the_longer_pattern_is_closer() -> None:
    assert closest_first(["GPU_*", "GPU_OFF_*", "XID *", "GPU_OFF_BUS"], "GPU_OFF_BUS") == [
        "GPU_OFF_BUS",
        "GPU_OFF_*",
        "GPU_*",
    ]


def test_an_xid_pattern_is_not_meant_for_a_lost_node_nor_an_sxid() -> None:
    assert closest_first(["XID *"], "SXID 20034") == []
    assert closest_first(["XID *"], "NODE_LOST") == []


# -------------------------------------------------------------------- repeats
def sighted(*when: tuple[float, int | None], action: Action = Action.RECORD, code: str = "XID 31") -> Fault:
    recent = [Sighting(time=at(seconds), job_id=job) for seconds, job in when]
    return fault(code, action=action, recent=recent, count=max(1, len(recent)))


def rule(**fields: Any) -> RepeatRule:
    return RepeatRule.model_validate({"count": 2, "window_seconds": 86_400, "action": "replace", **fields})


def test_xid_43_three_times_in_ten_minutes() -> None:
    """eks-node-monitoring-agent 272: a fixed list of codes is not enough."""
    three = [FaultPolicy(code="XID 43", repeats=[rule(count=3, window_seconds=600)])]
    slow = sighted((0, None), (500, None), (1000, None), code="XID 43")
    fast = sighted((0, None), (500, None), (600, None), code="XID 43")
    assert ruling(slow, [], three).action is Action.RECORD
    assert ruling(fast, [], three).action is Action.REPLACE
    assert "3 times within 600 s" in ruling(fast, [], three).because


def test_xid_31_twice_on_one_gpu_is_the_programs_fault_unless_it_hits_two_jobs() -> None:
    """dcgm-exporter 500: repeats are counted from the kernel log."""
    twice = rule(distinct_jobs=True)
    assert not repeated(sighted((0, 7), (60, 7), (120, 7)), twice)
    assert not repeated(sighted((0, 7), (60, None)), twice), "an unknown job is not another job"
    assert repeated(sighted((0, 7), (60, 8)), twice)


def test_a_burst_counts_once() -> None:
    """NVSentinel's burst rule: five bursts in a day, three minutes apart."""
    burst = rule(count=2, burst_gap_seconds=180)
    assert not repeated(sighted(*((float(second), None) for second in range(10))), burst)
    assert repeated(sighted((0, None), (1, None), (300, None)), burst)


def test_a_repeat_never_asks_for_less() -> None:
    mild = [FaultPolicy(code="XID 79", repeats=[rule(action="record")])]
    assert ruling(sighted((0, 1), (1, 2), action=Action.REPLACE, code="XID 79"), [], mild).action is Action.REPLACE


@given(
    times=st.lists(st.integers(0, 5000), min_size=1, max_size=16),
    count=st.integers(2, 16),
    window=st.integers(1, 5000),
    gap=st.integers(0, 500),
)
def test_more_sightings_never_undo_a_repeat(times: list[int], count: int, window: int, gap: int) -> None:
    wanted = RepeatRule(count=count, window_seconds=window, action=Action.REPLACE)
    bursts = wanted.model_copy(update={"burst_gap_seconds": gap})
    found = sighted(*((float(seconds), None) for seconds in times))
    assert repeated(found, wanted) is (len([t for t in times if t >= max(times) - window]) >= count)
    assert repeated(found, bursts) <= repeated(found, wanted)


# -------------------------------------------------------------------- triage
def decide(*faults: Fault, rules: list[FaultPolicy] | None = None, **more: Any) -> New | Fold | None:
    policy = RemediationPolicySpec(fault_policies=rules or [])
    seen = Report(node=node(), boot_id="boot", faults=faults)
    return triage(
        seen, pool(), policy, more.get("open_incident"), more.get("known", ()), at(5), more.get("history", ())
    )


def test_detect_only_is_recorded_and_told_and_never_acted_on() -> None:
    shown = [FaultPolicy(code="XID 79", detect_only=True)]
    found = decide(fault(), rules=shown)
    assert isinstance(found, New)
    assert found.spec.dry_run
    assert found.spec.detect_only
    assert decide(fault(), rules=shown, known=(found.name,)) is None, "told once"
    real = decide(fault(), known=(found.name,))
    assert isinstance(real, New), "acted on once the policy says so"
    assert not real.spec.dry_run


def test_a_fault_that_is_only_shown_does_not_make_an_open_incident_worse() -> None:
    shown = [FaultPolicy(code="XID 79", detect_only=True)]
    other = fault("XID 94", action=Action.CORDON)
    assert decide(fault(), other, rules=shown, open_incident=remediation(fault=other)) is None


def test_a_lost_node_is_ruled_by_its_own_name_only() -> None:
    lost = Report(node=node(), silence=Silence(90, 90, kubelet_unknown=True))
    for code, action in (("NODE_LOST", Action.CORDON), ("XID *", Action.REPLACE)):
        policy = RemediationPolicySpec(fault_policies=[FaultPolicy(code=code, action=Action.CORDON)])
        found = triage(lost, pool(), policy, None, (), at(5))
        assert isinstance(found, New)
        assert found.spec.fault.action is action


# -------------------------------------------------------------------- one node, several faults
def test_a_repeat_folds_a_known_fault_again_with_what_it_asks_for_now() -> None:
    mild = fault("XID 31", action=Action.CORDON)
    incident = remediation(fault=mild)
    again = decide(
        sighted((0, 1), (60, 2)), rules=[FaultPolicy(code="XID 31", repeats=[rule()])], open_incident=incident
    )
    assert isinstance(again, Fold)
    for one in again.faults:
        incident.status = fold(one)(incident.status)
    assert planned(incident) is Action.REPLACE


def test_a_job_is_restarted_as_often_as_it_is_hit() -> None:
    """k8s-device-plugin 234: XID 94 is the job's alone; the GPU is not unhealthy for ever."""
    once, twice = (fault("XID 94", action=Action.RESTART_JOB, count=count) for count in (1, 2))
    first = decide(once)
    assert isinstance(first, New)
    closed = remediation(first.name, fault=once, fence=FenceKind.JOBS, outcome=Outcome.HEALED)
    assert decide(once, known=(first.name,), history=[closed]) is None
    assert isinstance(decide(twice, known=(first.name,), history=[closed]), New)
    during = remediation(first.name, fault=once, more_faults=[twice], fence=FenceKind.JOBS, outcome=Outcome.HEALED)
    assert decide(twice, known=(first.name,), history=[during]) is None, "seen while its jobs were stopping"


def test_a_fault_that_came_within_a_second_of_an_end_is_taken_up() -> None:
    """medik8s NHO 238: healthy for one second between two faults."""
    gone = remediation("old", fault=fault(), fence=FenceKind.CORDON, outcome=Outcome.HEALED)
    new = decide(fault(device="0000:65:00", first_seen=at(1)), known=("old",), history=[gone])
    assert isinstance(new, New)
    same_again = decide(fault(first_seen=at(1)), known=("old",), history=[gone])
    assert isinstance(same_again, New)


def test_what_a_person_called_off_stays_called_off_with_all_its_faults() -> None:
    folded = fault("XID 48", device="0000:65:00")
    off = remediation("old", more_faults=[folded], fence=FenceKind.DOWN, outcome=Outcome.CANCELLED)
    assert decide(fault(), folded, known=("old",), history=[off]) is None


def test_a_severe_fault_folded_into_an_incident_that_only_restarted_jobs_gets_its_own() -> None:
    severe = fault(device="0000:65:00")
    light = remediation(
        "old",
        fault=fault("XID 94", action=Action.RESTART_JOB),
        more_faults=[severe],
        fence=FenceKind.JOBS,
        outcome=Outcome.HEALED,
    )
    assert isinstance(decide(severe, known=("old",), history=[light]), New)


@given(
    action=st.sampled_from(sorted(ACTING)),
    fence=st.sampled_from(FenceKind),
    outcome=st.sampled_from([Outcome.HEALED, Outcome.CANCELLED, Outcome.SUPERSEDED]),
)
def test_a_closed_incident_treats_exactly_what_it_did(action: Action, fence: FenceKind, outcome: Outcome) -> None:
    done = {FenceKind.JOBS: Action.RESTART_JOB, FenceKind.CORDON: Action.CORDON}.get(fence, Action.REPLACE)
    incident = remediation(fault=fault(action=action), fence=fence, outcome=outcome)
    treated = treated_before("node-uid", "boot", fault(action=action), [incident])
    assert treated is (severity(done) >= severity(action))


def test_a_persons_request_is_news_only_where_something_else_was_going_on() -> None:
    request = fault("MANUAL", device="", message="kim", action=Action.REPLACE)
    assert not news(request, fenced())
    assert news(request, remediation(fault=fault(action=Action.CORDON)))
    assert news(request, remediation(hold="it came back three times"))
