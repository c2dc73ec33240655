"""Keeps a struck job's survivors, and the node that joins them, from all other work until it can have them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from sparewheel.api.remediation import NodeStage, RemediationStatus, ReplacementRecord
from sparewheel.remediation.decide.observations import Gone
from sparewheel.remediation.decide.record import Change, copy, ended, replacement
from sparewheel.remediation.decide.survivors import (
    HELD,
    RENEW_SECONDS,
    Seen,
    come_back,
    held_nodes,
    hold_name,
    holds_back,
    jobs_ready,
    lift_due,
    look_again_seconds,
    room,
    strikes,
    survivors_of,
    waiting,
)
from sparewheel.remediation.decide.warm import reservation_name
from sparewheel.remediation.stages import jobs as job_track
from sparewheel.remediation.stages.incident import Incident, log
from sparewheel.slurm.port import Slurm, SlurmError, SlurmReservation, SlurmUnavailableError

RESERVATION_FLAGS = frozenset({"MAINT", "IGNORE_JOBS"})
"""MAINT: shown as maintenance, and may overlap others. IGNORE_JOBS: made although a job may be there."""
RESERVATION_USERS = ("root", "slurm")
"""slurm: our own jobs, which test a spare."""
BEGUN = timedelta(seconds=60)
"""A reservation begins this long ago, so that a clock of ours that is ahead of Slurm's leaves no gap."""
BEGIN_SECONDS = 3.0
"""The strike waits for its hold no longer than this."""


async def keep(slurm: Slurm, name: str, nodes: Collection[str], now: datetime, lasts: timedelta) -> None:
    """Keep Slurm nodes from all work by a reservation of this name; what runs there runs on."""
    await slurm.put_reservation(
        SlurmReservation(
            name,
            nodes=tuple(sorted(nodes)),
            users=RESERVATION_USERS,
            flags=RESERVATION_FLAGS,
            start_time=now - BEGUN,
            end_time=now + lasts,
        )
    )


async def begin(incident: Incident, nodes_of: Mapping[int, Collection[str]]) -> None:
    """Before the strike frees them. Whatever comes in the way costs the job its place at worst."""
    record = incident.record
    names = record.status.owned.held_nodes or survivors_of(record, nodes_of)
    if not names or not strikes(record) or record.status.replacement.lifted_at is not None:
        return
    incident.stage(_keeps(names))
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            await put(incident)
    except (SlurmUnavailableError, TimeoutError) as error:
        log.warning("%s: %s are not held yet: %s", incident.name, ", ".join(names), error or "no answer in time")


def _keeps(names: list[str]) -> Change:
    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.owned.held_nodes = new.owned.held_nodes or names
        return new

    return change


async def put(incident: Incident, *more: str) -> None:
    """Make or renew the hold; ``more``: Slurm nodes that come into service behind it."""
    names = held_nodes(incident.record)
    if names:
        await _put(incident, {*names, *more})


async def again(incident: Incident) -> None:
    """What was lifted is held again, before the spare that joined the jobs is struck: they will lack a node."""
    kept = incident.record.status.owned.held_nodes
    if kept:
        await _put(incident, {*kept, incident.record.spec.slurm_node or kept[0]})


async def _put(incident: Incident, names: Collection[str]) -> None:
    """One that is refused is not asked for again at once, and nothing waits for it: the job may lose its place."""
    clock = incident.ports.clock
    now = clock.now()  # Slurm's clock is nearer to ours than to the record's
    incident.lead()
    try:
        await keep(incident.ports.slurm, hold_name(incident.name), names, now, HELD)
        incident.held = frozenset(names)
    except SlurmUnavailableError:
        raise
    except SlurmError as error:
        log.warning("%s: %s are not held: %s", incident.name, ", ".join(sorted(names)), error)
    incident.held_monotonic = clock.monotonic_seconds()


async def look(incident: Incident) -> float | None:
    """Let the struck jobs have their nodes as soon as they can have all; seconds until the next look, None: no more."""
    record = incident.record
    if not ended(record.status, NodeStage.FENCED) or not holds_back(record):
        return None
    jobs = await see(incident)
    ready = jobs_ready(record, jobs, _now(incident))
    if ready and lift_due(record, jobs, _now(incident), room=await _room(incident, jobs)):
        await lift(incident)
        return None
    now, renewed = incident.ports.clock.monotonic_seconds(), incident.held_monotonic
    if renewed is None or now - renewed >= RENEW_SECONDS:
        async with incident.hold_lock:
            if holds_back(incident.record):
                await put(incident)
    return look_again_seconds(record, _now(incident), ready=ready)


async def see(incident: Incident) -> list[Seen]:
    """The struck jobs that come back, as they are now."""
    jobs = come_back(incident.record)
    views = await job_track.see(incident, jobs)
    return [(job, views.get(job.job_id, Gone())) for job in jobs]


async def jobs_are_ready(incident: Incident) -> bool:
    return jobs_ready(incident.record, await see(incident), _now(incident))


def _now(incident: Incident) -> datetime:
    """At least as long after the strike as this controller has seen the node fenced.

    The strike's time may be another replica's, whose clock is ahead of ours: nodes are not held until ours is there.
    """
    struck, since = incident.record.status.owned.slurm_struck_at, incident.fenced_monotonic
    if struck is None or since is None:
        return incident.now()
    seen = timedelta(seconds=incident.ports.clock.monotonic_seconds() - since)
    return max(incident.now(), struck + seen)


async def _room(incident: Incident, jobs: list[Seen]) -> bool:
    """Are enough other nodes free that the jobs need no spare? Not asked where one stands by.

    A node shows only seconds later that it is reserved (seen on 26.05), so that is read from the reservations.
    """
    lack = waiting(jobs)
    if incident.record.status.replacement.spare_slurm_node is not None or not lack:
        return False
    looks = incident.ports.looks
    reservations, listed = await (looks.room() if incident.crowded() else looks.see_room())
    kept = {name for one in reservations for name in one.nodes}
    nodes = [node for node in listed if node.name not in kept]
    for partition in {job.partition for job in lack}:
        wanted = set(partition.split(","))
        states = [node.states for node in nodes if wanted & set(node.partitions)]
        if not room(states, sum(job.partition == partition for job in lack)):
            return False
    return True


async def lift(incident: Incident) -> None:
    """All of them become free at once: a spare's own reservation goes first, while the hold still covers it."""
    async with incident.hold_lock:
        if holds_back(incident.record):
            await _lift(incident)


async def _lift(incident: Incident) -> None:
    record = incident.record.status.replacement
    slurm = incident.ports.slurm
    incident.lead()
    if record.spare_slurm_node is not None:
        if record.spare_slurm_node not in incident.held:
            await put(incident)
        await slurm.delete_reservation(reservation_name(record.spare_slurm_node))
    await free(incident)
    now = incident.now()

    def lifted(record: ReplacementRecord) -> None:
        record.lifted_at = record.lifted_at or now

    await incident.update(replacement(lifted))


async def free(incident: Incident) -> None:
    """Delete the hold, where there is one. To be journalled by the caller."""
    if held_nodes(incident.record):
        incident.lead()
        await incident.ports.slurm.delete_reservation(hold_name(incident.name))


async def drop(incident: Incident) -> None:
    """The incident ends, also with a hold that was lifted and made again. One that can't be deleted ends by itself."""
    status = incident.record.status
    lifted = status.replacement.lifted_at is not None and status.replacement.struck_again_at is None
    if lifted or not status.owned.held_nodes:
        return
    try:
        incident.lead()
        await incident.ports.slurm.delete_reservation(hold_name(incident.name))
    except SlurmError as error:
        log.warning("%s: its hold stays until it ends by itself: %s", incident.name, error)
