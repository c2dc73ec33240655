"""Writes that cross: a call-off past recall is not journalled; what was read before the breaker opened is old."""

from __future__ import annotations

from typing import Any, cast

from sparewheel.api.names import NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import RemediationPolicyStatus
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import REMEDIATION_POLICY
from sparewheel.remediation.decide.cancel import asked_to_cancel, called_off
from sparewheel.remediation.stages.incident import Incident, Ports
from sparewheel.remediation.stages.journal import Journal
from sparewheel.slurm.memory import MemorySlurm
from tests.support.clocks import StillClock
from tests.support.incidents import at, fenced


def test_a_call_off_that_another_track_was_quicker_than_is_not_journalled() -> None:
    record = fenced()
    assert called_off("anna", "no")(record.status).cancelled_by == "anna"
    record.status.replacement.admitted_at = at(9)
    record.status = called_off("anna", "no")(record.status)
    assert not record.status.cancelled_by
    assert asked_to_cancel(record) is None


async def test_what_was_read_while_the_breaker_was_being_opened_is_old() -> None:
    kube, clock, nobody = MemoryKube(), StillClock(), cast("Any", None)
    kube.put(REMEDIATION_POLICY, {"metadata": {"name": POLICY_NAME}, "spec": {}}, NAMESPACE)
    ports = Ports(kube, MemorySlurm(clock), nobody, nobody, clock, nobody, NAMESPACE)
    seen: list[int] = []

    def look(call: Call) -> None:
        if call.verb == "patch":
            seen.append(ports.breaker_writes)

    kube.before = look
    await Incident(ports, Journal(kube, fenced())).put_breaker(RemediationPolicyStatus(breaker_open=True))
    assert seen == [0], "whoever counts before the write has taken effect, reads again"
    assert ports.breaker_writes == 1
    assert (await ports.breaker.get()).breaker_open
