"""Is a host that goes to quarantine a lemon? Asked of the records there are, by the policy's rule."""

from __future__ import annotations

from datetime import datetime

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.names import POLICY_NAME
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import LemonRule, RemediationPolicy
from sparewheel.kube.port import REMEDIATION, REMEDIATION_POLICY, Kube, NotFoundError
from sparewheel.remediation.decide.lemons import lemon_reason


async def lemon_of(kube: Kube, namespace: str, host: GpuHost, now: datetime, *, this_one: str = "") -> str:
    """Why it is one, else empty. ``this_one``: the incident that strikes it now. Raises KubeError rather than guess."""
    try:
        policy = RemediationPolicy.from_wire(await kube.get(REMEDIATION_POLICY, POLICY_NAME, namespace))
        rule = policy.spec.lemon
    except NotFoundError:
        rule = LemonRule()
    records = [Remediation.from_wire(item) for item in (await kube.list(REMEDIATION, namespace)).items]
    return lemon_reason(host.spec.host, records, rule, now, this_one=this_one, cleared_at=host.status.cleared_at)
