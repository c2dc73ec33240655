"""A real API server takes the controller's Events, and the same one only once."""

from __future__ import annotations

import pytest

from sparewheel.api.remediation import Outcome
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import EVENT, ConflictError
from sparewheel.remediation.decide.happenings import event_bodies, happenings
from sparewheel.remediation.decide.record import close
from tests.support.incidents import at, fault, fenced


async def test_events_are_accepted_and_shown_with_the_objects_that_they_are_about(kube: KubeClient) -> None:
    record = fenced("events-of-an-incident")
    record.metadata.namespace, record.metadata.uid = "default", "0000-1"
    record.spec.fault = fault(message="é" * 2000)
    record.status = close(Outcome.HEALED, at(9), "ä" * 2000)(record.status)
    bodies = [body for what in happenings(record) for body in event_bodies(record, what, "one", at(1))]
    assert len(bodies) == 6
    for body in bodies:
        await kube.create(EVENT, body, body["metadata"]["namespace"])
    for body in bodies:
        with pytest.raises(ConflictError):
            await kube.create(EVENT, body, body["metadata"]["namespace"])
    found = await kube.list(EVENT, "default", field_selector="regarding.name=gpu-7")
    assert {body["reason"] for body in found.items} == {"FaultDetected", "NodeFenced", "RemediationClosed"}
