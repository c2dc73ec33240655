"""``sparewheel status`` says first why the platform may not heal as usual."""

from __future__ import annotations

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.names import CONTROLLER_APP_NAME, LABEL_APP_NAME, NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.cli.commands.reports import amiss
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import POD, REMEDIATION_POLICY, UnavailableError
from sparewheel.remediation.decide.spare_need import need_of_pool
from tests.support.incidents import T0, at, pool


def cluster(*, runs: bool = True, dry_run: bool = False, **breaker: object) -> MemoryKube:
    kube = MemoryKube()
    labels = {LABEL_APP_NAME: CONTROLLER_APP_NAME}
    spec = {"containers": [{"name": "controller", "command": ["python"]}]}
    phase = {"phase": "Running" if runs else "Pending"}
    kube.put(POD, {"metadata": {"name": "c-1", "labels": labels}, "spec": spec, "status": phase}, NAMESPACE)
    policy = RemediationPolicy(
        metadata=ObjectMeta(name=POLICY_NAME),
        spec=RemediationPolicySpec(dry_run=dry_run),
        status=RemediationPolicyStatus.model_validate(breaker),
    )
    kube.put(REMEDIATION_POLICY, policy.to_wire(), NAMESPACE)
    return kube


async def test_nothing_is_wrong() -> None:
    assert await amiss(cluster(), []) == []


@pytest.mark.parametrize(
    ("kube", "says"),
    [
        (cluster(runs=False), "no controller runs, so nothing would be done"),
        (cluster(dry_run=True), "it is a dry run"),
        (cluster(breaker_open=True, breaker_since=at(0), tripped_by="inc-1"), "The breaker is OPEN since 2026-01-01"),
    ],
)
async def test_what_keeps_it_from_healing(kube: MemoryKube, says: str) -> None:
    (only,) = await amiss(kube, [])
    assert says in only


async def test_too_few_spares_are_told_last() -> None:
    need = need_of_pool(pool(size=16, spares=1), [], [], T0)
    told = await amiss(cluster(dry_run=True), [need])
    assert told[-1].startswith("pool gpu has 0 and needs 3 spares")


async def test_a_look_that_failed_is_no_absence() -> None:
    kube = cluster()
    kube.fail(UnavailableError("away"), "list", POD)
    assert await amiss(kube, []) == ["whether a controller runs can't be asked: away"]
