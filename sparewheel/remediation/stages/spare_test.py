"""The Slurm test job on a spare: submitted and followed; in an incident, before a cold spare's Slurm node serves."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.remediation import ReplacementRecord
from sparewheel.api.spare_test import SpareTestRule
from sparewheel.remediation.decide import spare_test
from sparewheel.remediation.decide.observations import Gone, JobView, SlurmNodeView, Unknown
from sparewheel.remediation.decide.record import replacement
from sparewheel.remediation.decide.slurm_return import slurm_reason
from sparewheel.remediation.decide.spare_test import Result, Verdict
from sparewheel.remediation.decide.survivors import HELD, held_nodes, hold_name
from sparewheel.remediation.stages import survivors
from sparewheel.remediation.stages.incident import Incident, log
from sparewheel.remediation.stages.views import job_view
from sparewheel.slurm.port import BatchJob, Slurm, SlurmError, SlurmNotFoundError, SlurmUnavailableError

MARGIN = timedelta(seconds=10)
"""A reservation that ends sooner is renewed before anything may run behind it."""


async def submit(slurm: Slurm, name: str, node: str, reservation: str, pool: GpuPoolSpec, rule: SpareTestRule) -> int:
    """The job's number. Raises SlurmError."""
    return await slurm.submit_batch(
        BatchJob(
            name=name,
            node=node,
            partition=pool.node_set_ref.name,
            reservation=reservation,
            script=spare_test.script(rule.command, pool.gpus_per_node),
            gpus=pool.gpus_per_node,
            minutes=math.ceil(rule.timeout_seconds / 60) + 1,  # Slurm's own end of it, should nobody follow it
        )
    )


async def see(slurm: Slurm, job_id: int) -> JobView | Gone | Unknown:
    try:
        return job_view(await slurm.job(job_id))
    except SlurmNotFoundError:
        return Gone()
    except SlurmError as error:
        return Unknown(str(error))


async def known(slurm: Slurm, name: str) -> JobView | None:
    """The newest job of that name that Slurm remembers. Raises SlurmError."""
    return spare_test.newest(job_view(job) for job in await slurm.jobs() if job.name == name)


# -------------------------------------------------------------------- in an incident
async def protect(incident: Incident, slurm_node: str) -> str:
    """The reservation that keeps users' work off the node; empty until Slurm was seen to have it."""
    record = incident.record
    held = slurm_node in held_nodes(record)
    name = hold_name(incident.name) if held else spare_test.reservation_name(incident.name)
    now = incident.ports.clock.now()
    for one in await incident.ports.slurm.reservations():
        lasts = one.end_time is None or one.end_time - now > MARGIN
        if one.name == name and slurm_node in one.nodes and lasts:
            return name
    incident.lead()
    if held:
        await survivors.put(incident)
    else:
        lasting = timedelta(seconds=(await _rule(incident)).timeout_seconds) + HELD
        await survivors.keep(incident.ports.slurm, name, (slurm_node,), now, lasting)
    return ""


async def passed(incident: Incident, node: SlurmNodeView) -> bool:
    """Has the spare passed? Else the test goes on, or the spare is given up. The node is in service, and protected."""
    record = incident.record.status.replacement
    if record.tested_at is not None:
        await _clear(incident)
        return True
    if record.admitted_at is None or record.spare_host is None:
        return False
    found = await _verdict(incident, node, record.spare_host)
    if found.result is Result.WAITS:
        await incident.update(replacement(_says(found.why)))
        return False
    if found.result is Result.PASSED:
        await incident.update(spare_test.passed(incident.now()))
        await _clear(incident)
        return True
    log.warning("%s: spare %s is given up: %s", incident.name, record.spare_host, found.why)
    await incident.update(spare_test.failed(found, node.slurmd_start_time))
    return False


async def _verdict(incident: Incident, node: SlurmNodeView, host: str) -> Verdict:
    slurm, rule = incident.ports.slurm, await _rule(incident)
    await incident.update(spare_test.asked(incident.now()))
    record = incident.record.status.replacement
    asked_at, job_id = record.test_asked_at or incident.now(), record.test_job_id
    if job_id is None:
        name = spare_test.incident_job_name(incident.name, host)
        there = await known(slurm, name)
        reservation = await protect(incident, node.name)
        if there is None and not reservation:
            return Verdict(Result.WAITS, f"a reservation that keeps users' work off {node.name}")
        try:
            job_id = there.job_id if there else await _submit(incident, name, node.name, reservation)
        except SlurmUnavailableError:
            raise
        except SlurmError as error:
            return Verdict(Result.UNTOLD, f"its Slurm test job was refused: {error}")
        await incident.update(spare_test.submitted(job_id))
    return spare_test.verdict(await see(slurm, job_id), asked_at, rule.timeout_seconds, incident.now())


async def _submit(incident: Incident, name: str, node: str, reservation: str) -> int:
    incident.lead()
    return await submit(
        incident.ports.slurm, name, node, reservation, (await incident.pool()).spec, await _rule(incident)
    )


async def _rule(incident: Incident) -> SpareTestRule:
    return (await incident.pool()).spec.spare_test or SpareTestRule()


def _says(message: str) -> Callable[[ReplacementRecord], None]:
    def change(record: ReplacementRecord) -> None:
        record.message = message

    return change


async def put_back(incident: Incident) -> None:
    """The spare failed: its Slurm node is out of service again before it goes, and its job ended."""
    record, name = incident.record.status.replacement, incident.record.spec.slurm_node
    if not record.test_failure or name is None:
        return
    incident.lead()
    slurm = incident.ports.slurm
    await slurm.set_node_state(
        name, ["DOWN"], slurm_reason(incident.name, f"spare {record.spare_host} failed its test")
    )
    if record.test_job_id is not None:
        await slurm.cancel_job(record.test_job_id)
    await _clear(incident)


async def _clear(incident: Incident) -> None:
    """The test's own reservation. One that can't be deleted now ends by itself."""
    try:
        await incident.ports.slurm.delete_reservation(spare_test.reservation_name(incident.name))
    except SlurmUnavailableError:
        raise
    except SlurmError as error:
        log.warning("%s: the reservation of its test stays until it ends by itself: %s", incident.name, error)
