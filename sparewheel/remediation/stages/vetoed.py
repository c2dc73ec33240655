"""Stage vetoed: a wait. The node stays fenced, people are told, nothing is deleted, and it is looked at again."""

from __future__ import annotations

from sparewheel.api.remediation import NodeStage
from sparewheel.remediation.decide.events import EVENT_WAITING
from sparewheel.remediation.decide.record import end, ended, reopen_veto, started, waiting
from sparewheel.remediation.decide.veto import veto_reason
from sparewheel.remediation.stages.incident import Incident

EVENT = f"{EVENT_WAITING}/veto"


async def precondition(incident: Incident) -> str:
    """Empty when something vetoes (or the look-up failed, which counts the same)."""
    return "" if veto_reason(await incident.see_pods()) else "nothing vetoes"


async def act(incident: Incident) -> bool:
    """Journal the veto and tell it once."""
    reason = veto_reason(await incident.see_pods())
    if not reason:
        return True
    now = incident.now()
    await incident.update(reopen_veto(now), waiting(reason, now))
    await incident.tell(EVENT)
    return False


async def is_done(incident: Incident) -> bool:
    status = incident.record.status
    return not started(status, NodeStage.VETOED) or ended(status, NodeStage.VETOED)


async def lift(incident: Incident) -> bool:
    """The veto is over, seen afresh."""
    if veto_reason(await incident.see_pods()):
        return False
    return await incident.update(end(NodeStage.VETOED, incident.now(), "lifted"), waiting("", None))
