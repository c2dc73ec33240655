"""``python -m sparewheel.remediation.controller.preview NODE``: what would be done about a node now, as JSON.

Run where the controller runs, so that it sees what the controller sees, by the decisions that the controller makes.
Only reads.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, cast

from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import LABEL_POOL, POLICY_NAME
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.capacity.port import CapacityError
from sparewheel.clock import Clock
from sparewheel.kube.port import (
    GPU_POOL,
    NODE,
    PDB,
    POD,
    REMEDIATION,
    REMEDIATION_POLICY,
    Json,
    Kube,
    KubeError,
    NotFoundError,
)
from sparewheel.remediation.controller.settings import read_settings
from sparewheel.remediation.decide.observations import JobView, PodView, Unknown
from sparewheel.remediation.decide.plan import Budget, Known, Preview, preview
from sparewheel.remediation.stages.fenced import EXPEDITED_SINCE, parse_version
from sparewheel.remediation.stages.replacer import Replacer
from sparewheel.remediation.stages.views import job_view, node_view, pod_view
from sparewheel.slurm.port import Slurm, SlurmError


async def look(kube: Kube, slurm: Slurm, replacer: Replacer, clock: Clock, namespace: str, node: str) -> Preview:
    """Raises NotFoundError where there is no such Node, KubeError where our own objects can't be read."""
    view = node_view(await kube.get(NODE, node))
    pool = await _pool(kube, namespace, view.labels.get(LABEL_POOL, ""))
    pods, bodies = await _pods(kube, node)
    jobs, expedited = await _jobs(slurm)
    records = [Remediation.from_wire(item) for item in (await kube.list(REMEDIATION, namespace)).items]
    policy = await _policy(kube, namespace)
    pools = [GpuPool.from_wire(item) for item in (await kube.list(GPU_POOL, namespace)).items]
    spare, why = await _spare(replacer, pool, node)
    return preview(
        Known(
            node=view,
            pods=pods,
            pool=pool,
            policy=policy.spec,
            incidents=records,
            jobs=jobs,
            budgets=await _budgets(kube, bodies),
            spare=spare,
            spare_why=why,
            expedited=expedited,
            now=clock.now(),
            breaker=policy.status,
            gpu_nodes=sum(one.spec.size for one in pools),
        )
    )


async def _pool(kube: Kube, namespace: str, name: str) -> GpuPool | None:
    if not name:
        return None
    try:
        return GpuPool.from_wire(await kube.get(GPU_POOL, name, namespace))
    except NotFoundError:
        return None


async def _policy(kube: Kube, namespace: str) -> RemediationPolicy:
    try:
        return RemediationPolicy.from_wire(await kube.get(REMEDIATION_POLICY, POLICY_NAME, namespace))
    except NotFoundError:
        return RemediationPolicy()


async def _pods(kube: Kube, node: str) -> tuple[tuple[PodView, ...] | Unknown, list[Json]]:
    try:
        bodies = (await kube.list(POD, field_selector=f"spec.nodeName={node}")).items
    except KubeError as error:
        return Unknown(str(error)), []
    return tuple(pod_view(body) for body in bodies), bodies


async def _jobs(slurm: Slurm) -> tuple[tuple[JobView, ...] | Unknown, bool]:
    try:
        expedited = parse_version((await slurm.ping()).version) >= EXPEDITED_SINCE
        return tuple(job_view(job) for job in await slurm.jobs()), expedited
    except SlurmError as error:
        return Unknown(str(error)), True


async def _spare(replacer: Replacer, pool: GpuPool | None, node: str) -> tuple[str | None, str]:
    if pool is None:
        return None, ""
    try:
        choice = await replacer.would_claim(pool, await replacer.host_of(pool, node))
    except (CapacityError, KubeError) as error:
        return None, f"the spares can't be looked at: {error}"
    return choice.host, choice.why


async def _budgets(kube: Kube, pods: Sequence[Json]) -> tuple[Budget, ...] | Unknown:
    try:
        bodies = (await kube.list(PDB)).items
    except KubeError as error:
        return Unknown(str(error))
    found: list[Budget] = []
    for body in bodies:
        metadata, selector = body["metadata"], cast("Json", body.get("spec", {}).get("selector") or {})
        covers = [
            f"{metadata['namespace']}/{pod['metadata']['name']}"
            for pod in pods
            if pod["metadata"].get("namespace") == metadata["namespace"]
            and selects(selector, cast("dict[str, str]", pod["metadata"].get("labels") or {}))
        ]
        allowed = int(body.get("status", {}).get("disruptionsAllowed") or 0)
        found.append(Budget(metadata["namespace"], metadata["name"], allowed, tuple(sorted(covers))))
    return tuple(found)


def selects(selector: Json, labels: dict[str, str]) -> bool:
    """Kubernetes' label selector: all of matchLabels and matchExpressions. An empty one selects all."""
    wanted = cast("dict[str, str]", selector.get("matchLabels") or {})
    expressions = cast("list[dict[str, Any]]", selector.get("matchExpressions") or [])
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(expression, labels) for expression in expressions
    )


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key, values = str(expression["key"]), cast("list[str]", expression.get("values") or [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


async def main(arguments: list[str]) -> int:
    from sparewheel.remediation.controller.__main__ import build

    settings = read_settings(arguments[1:])
    async with AsyncExitStack() as stack:
        controller = await build(settings, stack)
        try:
            found = await look(
                controller.kube,
                controller.slurm,
                controller.replacer,
                controller.clock,
                settings.namespace,
                arguments[0],
            )
        except NotFoundError:
            print(f"there is no node {arguments[0]}", file=sys.stderr)
            return 1
        except KubeError as error:
            print(str(error), file=sys.stderr)
            return 1
    print(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
