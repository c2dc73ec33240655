"""Stage replaced: a spare claimed, joined, checked and admitted, and the bad host out of the way."""

from __future__ import annotations

from sparewheel.api.faults import Action
from sparewheel.api.remediation import NodeStage, ReplacementRecord, Trigger
from sparewheel.capacity.port import CapacityError, UnreachableError
from sparewheel.remediation.decide.anew import another_machine
from sparewheel.remediation.decide.budget import FleetLimits, replacement_refused
from sparewheel.remediation.decide.events import EVENT_WAITING
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.observations import Gone, NodeView
from sparewheel.remediation.decide.record import begin_once, drop_spare, end, ended, replacement
from sparewheel.remediation.decide.rung_words import words_of
from sparewheel.remediation.decide.sentences import fault_words
from sparewheel.remediation.decide.warm import takes_jobs
from sparewheel.remediation.stages import spare_test, takeover
from sparewheel.remediation.stages.incident import Incident, PreconditionError, log
from sparewheel.remediation.stages.replacer import BadNode, Check, Proof, UnfitError

EVENT_SPARE = f"{EVENT_WAITING}/spare"


async def precondition(incident: Incident) -> str:
    if stays_first(incident.record):
        return "it is to be mended where it is first"
    return "" if ended(incident.record.status, NodeStage.FENCED) else "the node is not fenced yet"


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.REPLACED)


async def act(incident: Incident) -> bool:
    """Claim a spare within the pool's budget. The claim's owner is this incident, so claiming again finds it."""
    refused = await precondition(incident)
    if refused:
        raise PreconditionError(f"{incident.name} may not be replaced: {refused}")
    ports, pool = incident.ports, await incident.pool()
    async with ports.claim_lock:
        incidents = await ports.fleet.incidents()
        fleet = FleetLimits((await ports.fleet.policy()).budget, ports.fleet.gpu_nodes())
        waits = replacement_refused(incident.name, pool.metadata.name, pool.spec, incidents, incident.now(), fleet)
        if waits:
            raise PreconditionError(f"{incident.name} waits for {waits}")
        node, removed = await incident.see_node(), incident.record.spec.trigger is Trigger.NODE_REMOVED
        if isinstance(node, NodeView) and another_machine(incident.record, node):
            await _say(incident, f"no spare: another machine took the name of node {node.name}")
            return False
        gone = removed or isinstance(node, Gone)
        await incident.recheck(spare=False, node=not gone)  # a node that is gone needs its spare all the more
        bad = await ports.replacer.host_of(pool, incident.record.spec.node)
        if bad is None:
            await _say(incident, f"node {incident.record.spec.node} to be known as a host of pool {pool.metadata.name}")
            return False
        refused_hosts = incident.record.status.replacement.refused_hosts
        choice = await ports.replacer.claim_spare(pool, incident.owner, bad, refused_hosts)
        if choice.host is None:
            others = f" ({choice.why})"[:400] if choice.why else ""
            await _say(incident, f"a spare: pool {pool.metadata.name} has none that is free and fit{others}")
            await incident.tell(EVENT_SPARE)
            return False
        now = incident.now()

        def claimed(record: ReplacementRecord) -> None:
            record.bad_host, record.spare_host, record.message = bad, choice.host, ""
            record.choice = choice.why
            record.claimed_at = record.claimed_at or now

        return await incident.update(begin_once(NodeStage.REPLACED, now), replacement(claimed))


async def _say(incident: Incident, message: str) -> None:
    def waits(record: ReplacementRecord) -> None:
        record.message = message

    await incident.update(replacement(waits))


async def say(incident: Incident, message: str) -> None:
    """Journal what the search for a spare waits for."""
    await _say(incident, message)


def _spare(incident: Incident) -> str:
    host = incident.record.status.replacement.spare_host
    if host is None:
        raise PreconditionError(f"{incident.name} holds no spare")
    return host


async def still_ours(incident: Incident) -> bool:
    """False, and the spare is forgotten, when somebody else has it now."""
    host = _spare(incident)
    if await incident.ports.replacer.holds(await incident.pool(), host, incident.owner):
        return True
    log.warning("%s: the claim on spare %s was lost", incident.name, host)
    await incident.update(drop_spare(host, refused=False, message=""))
    return False


async def join(incident: Incident) -> bool:
    """Bring the spare into the cluster; it joins tainted."""
    if not await still_ours(incident):
        return True
    await _ask_to_join(incident)
    incident.lead()
    host, pool, record = _spare(incident), await incident.pool(), incident.record.status.replacement
    try:
        node = await incident.ports.replacer.join_spare(
            pool, host, incident.owner, record.bad_host, takes_jobs=takes_jobs(record)
        )
    except UnfitError as error:
        return await give_up(incident, str(error), quarantine=error.ill)
    except CapacityError as error:
        await _silent(incident, error)
        raise
    now = incident.now()

    def joined(record: ReplacementRecord) -> None:
        record.spare_node, record.joined_at = node, record.joined_at or now
        record.spare_silent_since, record.spare_refused, record.message = None, False, ""

    return await incident.update(replacement(joined))


async def _ask_to_join(incident: Incident) -> None:
    """Journal the wish, and whether the spare is off before it is switched on: then it is given time to boot."""
    if incident.record.status.replacement.join_asked_at is not None:
        return
    pool, host = await incident.pool(), _spare(incident)
    try:
        was_off = await incident.ports.replacer.prove_off(pool, host, power_off=False)
    except CapacityError:  # the join will say the same
        was_off = Proof.UNKNOWN
    now = incident.now()

    def asked(record: ReplacementRecord) -> None:
        record.join_asked_at, record.spare_was_off = record.join_asked_at or now, was_off is Proof.OFF

    await incident.update(replacement(asked))


async def _silent(incident: Incident, error: CapacityError) -> None:
    now, refused = incident.now(), not isinstance(error, UnreachableError)

    def waits(record: ReplacementRecord) -> None:
        record.spare_silent_since = record.spare_silent_since or now
        record.spare_refused = refused
        record.message = f"spare {record.spare_host} to {'be let in' if refused else 'answer'} ({error})"

    await incident.update(replacement(waits))


async def another_free(incident: Incident) -> bool:
    """Could another spare take the place at once? Asked only while the one that is claimed is silent."""
    record = incident.record.status.replacement
    if record.spare_silent_since is None:
        return False
    return await incident.ports.replacer.another_free(await incident.pool(), record.bad_host, record.refused_hosts)


async def pass_over(incident: Incident, why: str) -> bool:
    """This spare doesn't answer: it stays a spare, and another is claimed."""
    host = _spare(incident)
    log.warning("%s: %s", incident.name, why)
    incident.lead()
    await incident.ports.replacer.pass_over(await incident.pool(), host, incident.owner, why)
    return await incident.update(drop_spare(host, refused=False, message=f"another spare ({why})"))


async def check(incident: Incident) -> bool:
    """New boot, fresh report, all GPUs. A spare that is not fit is refused and another is claimed."""
    if not await still_ours(incident):
        return True
    host, pool = _spare(incident), await incident.pool()
    jobs = takes_jobs(incident.record.status.replacement)
    result = await incident.ports.replacer.check_spare(pool, host, incident.owner, takes_jobs=jobs)
    if result.check is Check.REFUSED:
        return await give_up(incident, result.why)
    if result.check is Check.WAIT:
        await _say(incident, f"spare {host} to pass its checks ({result.why})")
        return False
    now = incident.now()

    def checked(record: ReplacementRecord) -> None:
        record.checked_at, record.message = record.checked_at or now, ""

    return await incident.update(replacement(checked))


async def give_up(incident: Incident, why: str, *, quarantine: bool = True) -> bool:
    """This spare is not fit: quarantined where it is ill, and in any case not tried again by this incident."""
    host, tested = _spare(incident), incident.record.status.replacement
    quarantine = quarantine and (tested.test_ill or not tested.test_failure)
    log.warning("%s: spare %s is refused: %s", incident.name, host, why)
    await takeover.put_back(incident)
    await spare_test.put_back(incident)
    incident.lead()
    pool = await incident.pool()
    await incident.ports.replacer.give_up(pool, host, incident.owner, why, quarantine=quarantine)
    return await incident.update(drop_spare(host, refused=True, message=f"another spare ({host} was refused: {why})"))


async def admit(incident: Incident) -> bool:
    """Lift the taints: the spare takes the pool's work."""
    if not await still_ours(incident):
        return True
    await incident.recheck(node=False)
    await incident.ports.replacer.admit(await incident.pool(), _spare(incident), incident.owner)
    now = incident.now()

    def admitted(record: ReplacementRecord) -> None:
        record.admitted_at, record.message = record.admitted_at or now, ""

    return await incident.update(replacement(admitted))


async def retire(incident: Incident) -> bool:
    """The bad host out of the cluster or proven off, its Node deleted by uid, the host quarantined."""
    status, spec = incident.record.status, incident.record.spec
    if status.replacement.admitted_at is None or not ended(status, NodeStage.DRAINED):
        raise PreconditionError(f"{incident.name}: the bad host is not retired before it is drained and replaced")
    host = status.replacement.bad_host
    held_up = await incident.ports.drive(spec.pool)
    if held_up:
        raise PreconditionError(f"{incident.name} waits for {held_up}")
    await incident.recheck(spare=False, node=False)
    if host is not None:
        tried = " and ".join(words_of(rung) for rung in status.ladder.rungs)
        wanted = spec.fault.action.value if spec.fault.action is not Action.REPLACE else "repair"
        reason = f"{fault_words(spec.fault)}: {f'{tried} did not help' if tried else wanted} ({incident.name})"
        bad = BadNode(spec.node, spec.node_uid, spec.boot_id, reason)
        await incident.ports.replacer.retire(await incident.pool(), host, bad, incident.owner)
    now = incident.now()

    def quarantined(record: ReplacementRecord) -> None:
        record.quarantined_at = record.quarantined_at or now

    return await incident.update(replacement(quarantined), end(NodeStage.REPLACED, now))
