"""What opens an incident, what is folded into the open one, what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.fault_policy import FaultPolicy
from sparewheel.api.faults import Action
from sparewheel.api.names import ANNOTATION_REPLACE_REQUEST, LABEL_POOL, LABEL_ROLE, ROLE_SPARE
from sparewheel.api.remediation import Remediation, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.silence import Silence
from sparewheel.remediation.decide.triage import Fold, New, Report, incident_name, still_open, triage
from tests.support.incidents import at, fault, node, pool, remediation, worker

POLICY = RemediationPolicySpec()


def decide(
    report: Report, incident: Remediation | None = None, known: tuple[str, ...] = (), **changes: Any
) -> New | Fold | None:
    return triage(report, pool(**changes), POLICY, incident, known, at(5))


def report(*faults: Any, **fields: Any) -> Report:
    return Report(node=fields.pop("node", node()), boot_id="boot", faults=tuple(faults), **fields)


def test_a_fault_that_asks_for_the_node_opens_an_incident() -> None:
    found = decide(report(fault(), workers=(worker(),)))
    assert isinstance(found, New)
    assert (found.spec.node, found.spec.slurm_node, found.spec.worker_pod_uid) == ("gpu-7", "gpu-0", "pod-uid")
    assert found.spec.grace_seconds == 120
    assert found.name.startswith("gpu-7-xid-79-")


@pytest.mark.parametrize("action", [Action.IGNORE, Action.RECORD])
def test_a_fault_that_is_only_recorded_opens_nothing(action: Action) -> None:
    assert decide(report(fault("XID 31", action=action))) is None


@pytest.mark.parametrize("action", [Action.RESET_GPU, Action.REBOOT, Action.REPLACE])
def test_every_action_on_the_node_is_healed_by_a_spare(action: Action) -> None:
    found = decide(report(fault(action=action)))
    assert isinstance(found, New)
    assert found.spec.fault.action is action, "whoever repairs the host sees what the catalogue asks for"


def test_the_policys_override_wins_over_the_catalogue() -> None:
    policy = RemediationPolicySpec(
        fault_policies=[
            FaultPolicy(code="XID 79", action=Action.RECORD),
            FaultPolicy(code="XID 63", action=Action.REPLACE),
        ]
    )
    assert triage(report(fault()), pool(), policy, None, (), at(5)) is None
    found = triage(report(fault("XID 63", action=Action.RECORD)), pool(), policy, None, (), at(5))
    assert isinstance(found, New)


def test_the_severest_fault_names_the_incident() -> None:
    mild, severe = fault("XID 48", action=Action.RESET_GPU), fault("XID 79", first_seen=at(3))
    found = decide(report(mild, severe))
    assert isinstance(found, New)
    assert found.spec.fault.code == "XID 79"


def test_two_controllers_give_the_same_incident_the_same_name() -> None:
    first, second = decide(report(fault())), decide(report(fault(last_seen=at(4), count=9)))
    assert isinstance(first, New)
    assert isinstance(second, New)
    assert first.name == second.name


def test_a_new_incarnation_or_a_new_fault_is_another_incident() -> None:
    names = {
        incident_name(node(), "boot", fault()),
        incident_name(node(uid="other"), "boot", fault()),
        incident_name(node(), "another boot", fault()),
        incident_name(node(), "boot", fault(device="0000:18:00")),
        incident_name(node(), "boot", fault(first_seen=at(60))),
    }
    assert len(names) == 5


def test_an_incident_that_was_closed_is_not_opened_again() -> None:
    found = decide(report(fault()))
    assert isinstance(found, New)
    assert decide(report(fault()), known=(found.name,)) is None


def test_the_same_bus_error_in_two_forms_is_one_incident_and_another_gpu_a_second_fault_of_it() -> None:
    """NVSentinel 155: off the bus without an XID, then XID 79 for the same device, then another device."""
    opened = decide(report(fault("GPU_OFF_BUS")))
    assert isinstance(opened, New)
    incident = remediation(opened.name, fault=opened.spec.fault)
    same = decide(report(fault("GPU_OFF_BUS"), fault("XID 79")), incident)
    assert isinstance(same, Fold)
    assert [one.code for one in same.faults] == ["XID 79"]
    other = decide(report(fault("GPU_OFF_BUS"), fault("GPU_OFF_BUS", device="0000:65:00")), incident)
    assert isinstance(other, Fold)
    assert [one.device for one in other.faults] == ["0000:65:00"]
    assert decide(report(fault("GPU_OFF_BUS", count=50)), incident) is None


def test_an_old_report_that_nobody_renews_opens_nothing() -> None:
    """NVSentinel 1347: an open-looking event from before."""
    assert decide(report(fault(), fresh=False)) is None


def test_a_paused_pool_another_pool_and_a_spare_are_left_alone() -> None:
    assert decide(report(fault()), paused=True) is None
    assert decide(report(fault(), node=node(labels={LABEL_POOL: "other"}))) is None
    assert decide(report(fault(), node=node(labels={LABEL_POOL: "gpu", LABEL_ROLE: ROLE_SPARE}))) is None
    assert triage(report(fault()), None, POLICY, None, (), at(5)) is None


def test_a_person_asks_for_a_replacement() -> None:
    asked = node(annotations={ANNOTATION_REPLACE_REQUEST: "kim: fan noise"})
    found = decide(report(node=asked))
    assert isinstance(found, New)
    assert (found.spec.trigger, found.spec.requested_by) == (Trigger.MANUAL, "kim: fan noise")
    later = triage(report(node=asked), pool(), POLICY, None, (), at(500))
    assert isinstance(later, New)
    assert later.name == found.name, "asked once"


def test_dry_run_is_written_into_the_record() -> None:
    found = decide(report(fault()), dry_run=True)
    assert isinstance(found, New)
    assert found.spec.dry_run
    assert decide(report(fault()), dry_run=True, known=(found.name,)) is None, "told once"


def test_a_fault_seen_in_a_dry_run_is_healed_once_dry_runs_are_over() -> None:
    dry = decide(report(fault()), dry_run=True)
    assert isinstance(dry, New)
    real = decide(report(fault()), known=(dry.name,))
    assert isinstance(real, New)
    assert not real.spec.dry_run


# -------------------------------------------------------------------- silence
def silent(agent: float | None, kubelet: float | None, unknown: bool = False) -> Silence:
    return Silence(agent_seconds=agent, kubelet_seconds=kubelet, kubelet_unknown=unknown)


@pytest.mark.parametrize(
    ("silence", "lost"),
    [
        (silent(50, 50), True),
        (silent(50, None, unknown=True), True),
        (silent(50, 5), False),
        (silent(5, 50, unknown=True), False),
        (silent(None, 50, unknown=True), False),
        (silent(50, None), False),
        (silent(39.9, 50), False),
    ],
)
def test_a_node_is_lost_only_when_agent_and_kubelet_are_both_silent(silence: Silence, *, lost: bool) -> None:
    found = decide(report(silence=silence), node_lost_seconds=40.0)
    assert isinstance(found, New) is lost
    if isinstance(found, New):
        assert found.spec.trigger is Trigger.NODE_LOST


def test_a_node_lost_twice_is_two_incidents() -> None:
    names = [
        found.name
        for beat in (at(0), at(900))
        if isinstance(found := decide(report(silence=silent(50, 50), heartbeat=beat)), New)
    ]
    assert len(set(names)) == 2


# -------------------------------------------------------------------- before anything is done
def test_a_fault_that_went_away_before_the_fence_is_called_off() -> None:
    incident = remediation()
    assert still_open(incident, report(fault()))
    assert not still_open(incident, report())
    assert still_open(incident, report(fresh=False)) is None, "not known yet is neither"
    assert not still_open(incident, Report(node=node(), boot_id="another boot", faults=(fault(),)))


def test_a_lost_node_that_is_heard_again_is_called_off() -> None:
    incident = remediation(trigger=Trigger.NODE_LOST)
    assert still_open(incident, report(silence=silent(60, 60)))
    assert not still_open(incident, report(silence=silent(1, 1)))
