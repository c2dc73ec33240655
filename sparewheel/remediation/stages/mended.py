"""Stage mended: the node's helper is asked, rung by rung, to reset a GPU or to reboot; or the backend to power cycle.

Which, is decided elsewhere.
Each rung is journalled before its request is written; the request is made of the journal alone, so that a controller
that takes over asks for the same, and the helper does the same only once.
"""

from __future__ import annotations

import asyncio

from sparewheel.api.ladder import RebootBy, RungRecord, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.node_action import to_annotation
from sparewheel.api.remediation import NodeStage
from sparewheel.capacity.port import CapacityError, UnreachableError
from sparewheel.kube.port import NODE, ConflictError, InvalidError, KubeError, NotFoundError
from sparewheel.remediation.decide.ladder import Ended, open_rung, request_of, took_effect
from sparewheel.remediation.decide.ladder_record import (
    begin_mending,
    end_rung,
    helped_late,
    ladder_over,
    mended,
    send_rung,
    take_rung,
    withdraw_rung,
)
from sparewheel.remediation.decide.observations import HealthView
from sparewheel.remediation.decide.record import ended
from sparewheel.remediation.decide.rung_words import result_words
from sparewheel.remediation.stages import healer
from sparewheel.remediation.stages.incident import Incident, PreconditionError, log
from sparewheel.remediation.stages.views import node_view

POWER_CYCLE_SECONDS = 150.0
"""The backend's answer is waited for no longer than this; it proves nothing either way."""


async def precondition(incident: Incident) -> str:
    if incident.record.status.replacement.claimed_at is not None:
        return "a spare is claimed already"
    return "" if ended(incident.record.status, NodeStage.FENCED) else "the node is not fenced yet"


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.MENDED)


async def act(incident: Incident) -> bool:
    """Begin; each rung is decided at its own look."""
    refused = await precondition(incident)
    if refused:
        raise PreconditionError(f"{incident.name} may not be mended: {refused}")
    await healer.we_alone(incident)
    return await incident.update(begin_mending(incident.now()))


async def take(incident: Incident, rung: RungRecord) -> bool:
    """Journal the rung, everything looked at afresh; the next look asks for it. A node has one healer."""
    await healer.we_alone(incident)
    if rung.by is RebootBy.BACKEND:
        await _drive(incident)  # its time begins with the journal's line
    await incident.recheck(spare=False)
    return await incident.update(take_rung(rung))


async def ask(incident: Incident, rung: RungRecord) -> bool:
    """Write the request. What the API server refuses for good is the end of the rung; nothing was begun."""
    await incident.recheck(spare=False)
    still = open_rung(incident.record.status)
    if still is None or still.id != rung.id or still.withdrawn_at is not None:
        return True
    try:
        await _annotate(incident, to_annotation(request_of(rung)))
    except InvalidError as error:
        log.warning("%s: the request to the node's helper was refused: %s", incident.name, error)
        return await finish(incident, rung, Ended(RungResult.NOT_ASKED, str(error)[:300]))
    except (NotFoundError, ConflictError):
        return True  # another incarnation: the next look says so
    log.info("event=rung incident=%s rung=%s kind=%s device=%s", incident.name, rung.id, rung.kind.value, rung.device)
    return False


async def power_cycle(incident: Incident, rung: RungRecord) -> bool:
    """The capacity backend reboots the host. Told once, whatever comes of it: only another boot says that it did."""
    host = await _host_of(incident)
    await _drive(incident)
    await incident.recheck(spare=False)
    if host is None:
        return await finish(incident, rung, Ended(RungResult.REFUSED, "the node is no host of the pool"))
    now = incident.now()
    await incident.update(send_rung(rung.id, now))
    still = open_rung(incident.record.status)
    if still is None or still.id != rung.id or still.sent_at != now or still.withdrawn_at is not None:
        return True
    incident.lead()
    log.info("event=rung incident=%s rung=%s kind=power_cycle host=%s", incident.name, rung.id, host)
    try:
        async with asyncio.timeout(min(POWER_CYCLE_SECONDS, rung.timeout_seconds)):
            await incident.ports.replacer.reboot(await incident.pool(), host)
    except (UnreachableError, KubeError, TimeoutError) as error:
        log.warning("%s: whether host %s reboots is not known: %s", incident.name, host, error or "no answer in time")
    except CapacityError as error:
        return await finish(incident, rung, Ended(RungResult.REFUSED, str(error)[:300]))
    return False


async def _drive(incident: Incident) -> None:
    """Whoever holds the pool's lease has its hosts in hand."""
    held_up = await incident.ports.drive(incident.record.spec.pool)
    if held_up:
        raise PreconditionError(f"{incident.name} waits for {held_up}")


async def _host_of(incident: Incident) -> str | None:
    return await incident.ports.replacer.host_of(await incident.pool(), incident.record.spec.node)


async def withdraw(incident: Incident, rung: RungRecord) -> bool:
    """The request is taken back, then journalled as such: a helper that has read it is given its time."""
    await _take_back(incident, rung)
    return await incident.update(withdraw_rung(rung.id, incident.now()))


async def finish(incident: Incident, rung: RungRecord, how: Ended) -> bool:
    """The rung is over, whatever came of it; its request must not be taken up later."""
    await _take_back(incident, rung)
    await incident.update(end_rung(rung.id, how, incident.now()))
    _log(incident, rung)
    return True


async def helped(incident: Incident, rung: RungRecord, how: Ended) -> bool:
    """The rung helped and the node is well: one line of the journal says both, and from then on it is given back."""
    await _take_back(incident, rung)
    now = incident.now()
    incident.stage(end_rung(rung.id, how, now), helped_late(rung.id, how, now))
    record = next(one for one in incident.record.status.ladder.rungs if one.id == rung.id)
    await incident.update(mended(result_words(record), now))
    _log(incident, rung)
    return True


async def give_up(incident: Incident, why: str) -> bool:
    """No rung is left: the node is replaced."""
    return await incident.update(ladder_over(why, incident.now()))


def see_health(incident: Incident) -> HealthView | None:
    """The agent's report; once a rung was done only what is heard after it counts as said afresh."""
    fleet, node, since = incident.ports.fleet, incident.record.spec.node, incident.fenced_monotonic
    view = fleet.health(node, since)
    taken = incident.record.status.ladder.rungs
    if not taken or not took_effect(taken[-1], view):
        return view
    if incident.rung_done is None or incident.rung_done[0] != taken[-1].id:
        incident.rung_done = (taken[-1].id, incident.ports.clock.monotonic_seconds())
    return fleet.health(node, incident.rung_done[1])


async def _take_back(incident: Incident, rung: RungRecord) -> None:
    """Take our request off the Node. A refusal holds nothing up: what the helper did once it does not do again."""
    if rung.by is RebootBy.BACKEND:
        return
    try:
        present = node_view(await incident.ports.kube.get(NODE, incident.record.spec.node))
        ours = present.annotations.get(ANNOTATION_NODE_ACTION) == to_annotation(request_of(rung))
        if ours and present.uid == incident.record.spec.node_uid:
            await _annotate(incident, None)
    except NotFoundError:
        return
    except (InvalidError, ConflictError) as error:
        log.warning("%s: the request to the node's helper stays on the Node: %s", incident.name, error)


async def _annotate(incident: Incident, text: str | None) -> None:
    incident.lead()
    metadata = {"uid": incident.record.spec.node_uid, "annotations": {ANNOTATION_NODE_ACTION: text}}
    await incident.ports.kube.merge_patch(NODE, incident.record.spec.node, {"metadata": metadata})


def _log(incident: Incident, rung: RungRecord) -> None:
    for one in incident.record.status.ladder.rungs:
        if one.id == rung.id:
            log.info("event=rung_ended incident=%s %s", incident.name, result_words(one))
