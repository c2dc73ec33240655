"""A struck node's Node is removed and its kubelet registers it anew: the incident goes on with it."""

from __future__ import annotations

from sparewheel.api.names import ANNOTATION_REMEDIATION
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.remediation.decide.next_step import NodeAction, Situation, next_step
from sparewheel.remediation.decide.observations import HealthView, Observations
from sparewheel.remediation.decide.record import end
from tests.support.incidents import at, claimed, fenced, node, pool, worker

MARK = {ANNOTATION_REMEDIATION: "gpu-7-xid-79-0"}
QUIET = HealthView(heard_seconds_ago=1.0, heard_since_fence=True, jobs_alive=frozenset())


def actions(record: Remediation, seen: Observations) -> list[NodeAction]:
    return [todo.action for todo in next_step(record, seen, Situation(pool().spec, at(5))).todo]


def test_a_struck_node_that_registers_anew_is_cordoned_anew_and_goes_the_same_way() -> None:
    anew = node(uid="another", annotations=MARK, unschedulable=True)
    record = fenced()
    assert actions(record, Observations(node(uid="another"))) == [NodeAction.CORDON_ANEW]
    assert actions(record, Observations(anew, health=QUIET)) == [NodeAction.BEGIN_DRAIN], "and a spare is looked for"
    claimed(record)
    assert actions(record, Observations(anew, pods=(worker(uid="new"),), health=QUIET)) == [NodeAction.DELETE_WORKER]
    assert actions(record, Observations(anew, health=QUIET)) == [NodeAction.DRAINED]
    record.status = end(NodeStage.DRAINED, at(4))(record.status)
    assert actions(record, Observations(node(uid="another"))) == [NodeAction.CORDON_ANEW]
    record.status.replacement.quarantined_at = at(6)
    assert NodeAction.CORDON_ANEW not in actions(record, Observations(node(uid="another")))


def test_a_person_may_take_a_node_that_registered_anew_back() -> None:
    seen = Observations(node(uid="another", annotations=MARK), health=QUIET)
    assert actions(fenced(), seen) == [NodeAction.CANCEL]


def test_another_machine_of_the_same_name_is_somebody_elses() -> None:
    record, seen = fenced(), Observations(node(uid="another", provider_id="cloud://2"))
    record.spec.provider_id = "cloud://1"
    assert NodeAction.CORDON_ANEW not in actions(record, seen)
    record.spec.provider_id = "cloud://2"
    assert actions(record, seen) == [NodeAction.CORDON_ANEW]


def test_an_incident_whose_host_is_retired_is_healed_whoever_takes_the_name() -> None:
    record, seen = claimed(fenced()), Observations(node(uid="another", provider_id="cloud://2"))
    record.spec.provider_id = "cloud://1"
    record.status = end(NodeStage.DRAINED, at(4))(record.status)
    record.status.replacement.admitted_at, record.status.owned.slurm_down = at(4), []
    assert actions(record, seen) == [NodeAction.SUPERSEDE]
    record.status.replacement.quarantined_at = at(4.5)
    assert actions(record, seen) == [NodeAction.CLOSE]
