"""Stage vetoed: a wait. The node stays fenced, people are told, nothing is deleted, and it is looked at again."""

from __future__ import annotations

from sparewheel.api.remediation import NodeStage
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import EVENT_VETO_OVERDUE, EVENT_WAITING
from sparewheel.remediation.decide.record import end, ended, reopen_veto, started, veto_escalated, waiting
from sparewheel.remediation.stages.incident import Incident

EVENT = f"{EVENT_WAITING}/veto"


async def precondition(incident: Incident) -> str:
    """Empty when something vetoes (or the look-up failed, which counts the same)."""
    return "" if (await incident.see_veto()).reason else "nothing vetoes"


async def act(incident: Incident) -> bool:
    """Journal the veto and tell it once."""
    reason = (await incident.see_veto()).reason
    if not reason:
        return True
    now = incident.now()
    await incident.update(reopen_veto(now), waiting(reason, now))
    await incident.tell(EVENT)
    return False


async def escalate(incident: Incident) -> bool:
    """The veto lasts longer than the policy allows, and holds: people are told once more."""
    now = incident.now()
    routes = await incident.routes(EVENT_VETO_OVERDUE)
    return await incident.update(veto_escalated(now), enqueue(incident.name, EVENT_VETO_OVERDUE, routes, now))


async def is_done(incident: Incident) -> bool:
    status = incident.record.status
    return not started(status, NodeStage.VETOED) or ended(status, NodeStage.VETOED)


async def lift(incident: Incident) -> bool:
    """The veto is over, seen afresh."""
    verdict = await incident.see_veto()
    if verdict.reason:
        return False
    return await incident.update(
        end(NodeStage.VETOED, incident.now(), verdict.set_aside or "lifted"), waiting("", None)
    )
