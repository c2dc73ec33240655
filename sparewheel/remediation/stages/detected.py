"""Stage detected: the record exists, and a message is in the outbox. The fault's own time opens it."""

from __future__ import annotations

from sparewheel.api.base import ObjectMeta
from sparewheel.api.names import ANNOTATION_INCARNATION, LABEL_POOL
from sparewheel.api.remediation import NodeStage, Remediation, RemediationSpec
from sparewheel.kube.port import REMEDIATION, ConflictError, Kube
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import EVENT_DETECTED
from sparewheel.remediation.decide.record import begin_once, end, ended
from sparewheel.remediation.stages.incident import Incident


async def create(kube: Kube, namespace: str, name: str, spec: RemediationSpec) -> Remediation:
    """Make the record, or find the one that another controller made: the name says which incident it is."""
    record = Remediation(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels={LABEL_POOL: spec.pool},
            annotations={ANNOTATION_INCARNATION: spec.node_uid},
        ),
        spec=spec,
    )
    body = record.to_wire()
    body.pop("status", None)
    try:
        return Remediation.from_wire(await kube.create(REMEDIATION, body, namespace))
    except ConflictError:
        return Remediation.from_wire(await kube.get(REMEDIATION, name, namespace))


async def precondition(incident: Incident) -> str:
    return "" if not await is_done(incident) else "it is recorded already"


async def act(incident: Incident) -> bool:
    """The first lines of the journal, written with what comes next. The stage begins with the fault itself."""
    now = incident.now()
    begun = min(now, incident.record.spec.fault.first_seen)
    incident.stage(
        begin_once(NodeStage.DETECTED, begun),
        enqueue(incident.name, EVENT_DETECTED, await incident.routes(EVENT_DETECTED), now),
        end(NodeStage.DETECTED, now),
    )
    return True


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.DETECTED)
