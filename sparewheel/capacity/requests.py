"""What a person asks for a host: out of quarantine, after the checks; or a spare into it. Cut anywhere, it goes on.

The request is an annotation on the GpuHost; when it is done, or refused, an answer in words takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from sparewheel.api.base import format_time
from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostStatus, HostPhase, HostRequest, HostVerb, Repair
from sparewheel.api.names import ANNOTATION_HOST_ANSWER, ANNOTATION_HOST_REQUEST
from sparewheel.capacity import steps
from sparewheel.capacity.claims import PERSON, as_owner, claim, let_go, owner_of
from sparewheel.capacity.hosts import Change, entering, read_host
from sparewheel.capacity.port import CapacityError, Check, UnreachableError
from sparewheel.capacity.steps import Site
from sparewheel.kube.port import GPU_HOST

MAX_REPAIRS = 20
DEADLINE_SECONDS = 900.0
"""A host to be released gets this long to boot, join and pass its checks."""


def request_of(host: GpuHost) -> HostRequest | None:
    """The request on the host; None where there is none. CapacityError for one that can't be read."""
    text = host.metadata.annotations.get(ANNOTATION_HOST_REQUEST)
    if not text:
        return None
    try:
        return HostRequest.model_validate_json(text)
    except ValidationError as error:
        raise CapacityError(
            f"the request on host {host.spec.host} can't be read ({error.error_count()} errors)"
        ) from error


def refusal(host: GpuHost, request: HostRequest) -> str:
    """Why the request can't be done as things are; empty when it can be begun. The command line asks this first."""
    name, status = host.spec.host, host.status
    holder = owner_of(host)
    if holder is not None:
        return f"host {name} is claimed by {holder}; wait for its end"
    if request.verb is HostVerb.QUARANTINE:
        if status.phase is HostPhase.ACTIVE:
            return (
                f"host {name} serves as node {status.node_name}; `sparewheel replace {status.node_name}` takes it out"
            )
        return "" if status.phase is HostPhase.SPARE else f"host {name} is {status.phase.value}, not a spare"
    if status.phase is not HostPhase.QUARANTINED:
        return f"host {name} is {status.phase.value}, not quarantined; there is nothing to release"
    if status.lemon and not request.clear_lemon:
        return f"host {name} is a lemon ({status.reason}); if its cause was found and repaired, add --clear-lemon"
    return ""


async def serve_requests(site: Site, hosts: Sequence[GpuHost]) -> list[str]:
    """Do what is asked of these hosts, as far as it goes now; notes in words."""
    notes: list[str] = []
    for host in hosts:
        holder = owner_of(host) or ""
        if holder.startswith(PERSON) or ANNOTATION_HOST_REQUEST in host.metadata.annotations:
            try:
                notes.append(await _serve(site, host))
            except CapacityError as error:  # it is tried again, and the rest of the pool goes on
                notes.append(str(error))
    return [note for note in notes if note]


async def _serve(site: Site, host: GpuHost) -> str:
    host = await read_host(site.kube, site.namespace, host.metadata.name)
    try:
        request = request_of(host)
    except CapacityError as error:
        return await _answer(site, host, f"refused: {error}")
    owner = f"{PERSON}{host.spec.host}"
    if owner_of(host) != owner:
        if request is None:
            return ""
        done = _done(host, request)
        if done:
            return await _answer(site, host, done)
        refused = refusal(host, request)
        if refused:
            return await _answer(site, host, f"refused: {refused}")
        host = await _begin(site, host, request, owner)
    if host.status.phase is HostPhase.SPARE:
        return await _into_quarantine(site, host, request, owner)
    return await _out_of_quarantine(site, host, request, owner)


def _done(host: GpuHost, request: HostRequest) -> str:
    """The answer, where the request was done and cut before it was answered; else empty."""
    status = host.status
    if request.verb is HostVerb.RELEASE and status.released_by == _stamp(request):
        return _RELEASED.format(by=request.by)
    in_time = status.quarantined_at is not None and status.quarantined_at >= request.time
    if request.verb is HostVerb.QUARANTINE and in_time and status.quarantine_reason.endswith(_by(request)):
        return f"quarantined {_by(request)}"
    return ""


_RELEASED = "released by {by}: all checks passed, it is a spare again"


def _by(request: HostRequest) -> str:
    return f"by {request.by}: {request.reason}"


def _stamp(request: HostRequest) -> str:
    return f"{request.by} at {format_time(request.time)}: {request.reason}"


async def _begin(site: Site, host: GpuHost, request: HostRequest, owner: str) -> GpuHost:
    phase = host.status.phase
    ours = Claim(owner=owner, purpose=f"{request.verb.value} for {request.by}: {request.reason}", time=site.clock.now())
    release = request.verb is HostVerb.RELEASE
    change = entering(HostPhase.JOINING, site.clock) if release else None
    site.before_write()
    return await claim(
        site.kube, site.namespace, host.metadata.name, ours, lambda now: now.status.phase is phase, change
    )


async def _into_quarantine(site: Site, host: GpuHost, request: HostRequest | None, owner: str) -> str:
    if request is None:  # the wish was taken back before anything was done
        await let_go(site.kube, host, owner, lambda _: None)
        return ""
    site.before_write()
    await steps.quarantine(site, host, owner, _by(request))
    return await _answer(site, host, f"quarantined {_by(request)}")


async def _out_of_quarantine(site: Site, host: GpuHost, request: HostRequest | None, owner: str) -> str:
    name = host.spec.host
    why, waits = "", ""
    try:
        if host.status.phase is HostPhase.JOINING:
            host = await steps.join(site, host, owner)
        result = await steps.check(site, host, repaired=request is not None and request.repaired)
        why = result.why if result.check is Check.REFUSED else ""
        waits = result.why if result.check is Check.WAIT else ""
    except UnreachableError as error:
        waits = str(error)
    except CapacityError as error:
        why = str(error)
    begun = host.status.claim.time if host.status.claim else site.clock.now()
    if waits and (site.clock.now() - begun).total_seconds() > DEADLINE_SECONDS:
        why = f"not ready after {DEADLINE_SECONDS:g} s: {waits}"
    if request is None:
        why = "the request was taken back"
    if why:
        before = host.status.quarantine_reason or "quarantined"
        await steps.quarantine(site, host, owner, f"{before}; not released: {why}")
        return await _answer(site, host, f"refused: host {name} stays quarantined: {why}")
    if waits:
        return f"{name} is to be released and waits for {waits}"
    assert request is not None  # noqa: S101 - why is set otherwise
    await as_owner(site.kube, site.namespace, name, owner, _released(site, request))
    await steps.back_to_spare(site, await read_host(site.kube, site.namespace, name), owner)
    return await _answer(site, host, _RELEASED.format(by=request.by))


def _released(site: Site, request: HostRequest) -> Change:
    now = site.clock.now()

    def change(status: GpuHostStatus) -> None:
        if status.quarantined_at is not None:
            repair = Repair(quarantined_at=status.quarantined_at, released_at=now)
            status.repairs = [*status.repairs, repair][-MAX_REPAIRS:]
        status.quarantined_at, status.quarantine_reason, status.refused_boot_id = None, "", None
        status.released_by = _stamp(request)
        status.checked_at = now
        if status.lemon:
            status.lemon, status.cleared_at = False, now

    return change


async def _answer(site: Site, host: GpuHost, text: str) -> str:
    annotations = {ANNOTATION_HOST_REQUEST: None, ANNOTATION_HOST_ANSWER: text[:500]}
    site.before_write()
    patch = {"metadata": {"annotations": annotations}}
    await site.kube.merge_patch(GPU_HOST, host.metadata.name, patch, site.namespace)
    return f"{host.spec.host}: {text}"
