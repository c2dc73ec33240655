"""Faults on the running platform, end to end: real kubelets, real Slurm, a job that traps and sleeps."""

from __future__ import annotations

import pytest

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.demo.cluster import sparewheel
from lab.machines.inventory import load_inventory
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import LABEL_VETO, NAMESPACE
from sparewheel.api.remediation import NodeStage, Outcome, Trigger
from tests.lab.platform import GRACE_SECONDS, HEAL_SECONDS, Platform
from tests.lab.shown import secrets_of, shown_by
from tests.support.canaries import leaks

pytestmark = pytest.mark.timeout(600)

VETO_POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: holds-a-key, namespace: default, labels: {{{LABEL_VETO}: "true"}}}}
spec:
  nodeName: NODE
  tolerations: [{{operator: Exists}}]
  terminationGracePeriodSeconds: 0
  containers: [{{name: pause, image: "sparewheel.local/base:26.05", command: [sleep, infinity]}}]
"""


def test_a_gpu_dies_and_the_job_goes_on(platform: Platform) -> None:
    job, (batch, second) = platform.running(SAVE_SECONDS=2)
    rival, small = platform.submit(), platform.submit(1)
    platform.inject(second)
    name = platform.incident(second).metadata.name
    platform.await_event(job, "first_step", 1)
    saved = max(event["step"] for event in platform.events(job) if event["event"] == "saved" and event["attempt"] == 0)
    resumed = platform.await_event(job, "start", 1)
    assert resumed["resumed_from_step"] == saved
    record = platform.healed(name)
    assert record.status.replacement.bad_host == second
    assert platform.host(second).status.phase is HostPhase.QUARANTINED
    assert not platform.node_exists(second)
    assert batch in platform.nodes_of(job)
    assert second not in platform.nodes_of(job)
    platform.await_record(name, "the job's track is closed", lambda r: all(j.closed for j in r.status.jobs))
    followed = platform.job_record(name, job)
    assert (followed.attempt_after, followed.resumed_from_step) == (1, saved)
    assert platform.alice.job(rival).state == "PENDING"
    assert platform.alice.job(small).state == "PENDING", "nor did a smaller one get the survivor"
    told = platform.inbox.of("incident.detected")
    assert len(told) == 1
    assert str(job) in told[0].body["text"] + str(told[0].body["jobs"])
    assert f"resumed from step {saved}" in sparewheel(platform.paths, "why", str(job)).replace("\n", " ")
    assert "resumed from step" in platform.alice.ssh(f"scontrol show job {job}")
    secrets, places = secrets_of(platform.paths), shown_by(platform)
    assert len(secrets) > 5, "there are keys and passwords to look for"
    assert leaks(places, secrets) == []
    assert leaks({"reversed": secrets[0]}, secrets) != []


def test_the_batch_host_dies(platform: Platform) -> None:
    job, (batch, _) = platform.running(SAVE_SECONDS=2)
    platform.inject(batch)
    name = platform.incident(batch).metadata.name
    platform.await_event(job, "first_step", 1)
    platform.healed(name)


def test_a_hung_rank_is_ended_after_the_grace(platform: Platform) -> None:
    job, (_, second) = platform.running(SAVE_SECONDS=1)
    batch_host = platform.alice.nodes(job)[0]
    platform.inject(second, bite="hang")
    name = platform.incident(second).metadata.name
    platform.await_event(job, "first_step", 1)
    healed = platform.healed(name).status
    struck_at, deleted_at = healed.owned.slurm_struck_at, healed.replacement.worker_deleted_at
    assert struck_at is not None
    assert deleted_at is not None
    assert (deleted_at - struck_at).total_seconds() >= GRACE_SECONDS - 2, "Slurm counts whole seconds"
    late = [event for event in platform.events(job) if event["attempt"] == 0 and event["event"] == "saved"]
    assert {event["host"] for event in late} == {batch_host}, f"only {batch_host} could save: {late}"


def test_a_vetoed_node_is_fenced_and_told_and_nothing_more(platform: Platform) -> None:
    job, (_, second) = platform.running()
    kubectl(platform.paths, "apply", "-f", "-", stdin=VETO_POD.replace("NODE", second))
    try:
        platform.inject(second)
        name = platform.incident(second).metadata.name
        vetoed = platform.await_record(
            name, "the veto is seen", lambda r: any(s.name is NodeStage.VETOED for s in r.status.stages)
        )
        platform.await_event(job, "saved", 0)
        platform.told_of_the_wait()
        assert platform.node_exists(second)
        assert platform.record(name).status.outcome is Outcome.OPEN
        assert "holds-a-key" in vetoed.status.waiting_for
        assert kubectl(platform.paths, "get", "pod", "holds-a-key", "-o", "jsonpath={.status.phase}") == "Running"
    finally:
        kubectl(platform.paths, "delete", "pod", "holds-a-key", "--ignore-not-found", "--wait=true")
    platform.healed(name)


def test_without_a_spare_nothing_is_deleted_and_it_goes_on_when_one_comes(platform: Platform) -> None:
    with platform.no_spares():
        job, (_, second) = platform.running()
        platform.inject(second)
        name = platform.incident(second).metadata.name
        platform.await_record(name, "it waits for a spare", lambda r: "spare" in r.status.waiting_for)
        platform.await_event(job, "saved", 0)
        platform.told_of_the_wait()
        assert platform.node_exists(second)
        assert platform.host(second).status.phase is not HostPhase.QUARANTINED
    platform.healed(name)
    platform.await_event(job, "first_step", 1)
    assert len(platform.inbox.of("incident.waiting")) == 1


def test_a_lost_host_is_proven_off_before_its_pod_is_given_away(platform: Platform) -> None:
    job, (_, second) = platform.running()
    centre = DataCentre(platform.paths)
    centre.power.crash(load_inventory(platform.paths.state).host(second))
    record = platform.incident(second, 120)
    assert record.spec.trigger is Trigger.NODE_LOST
    name = record.metadata.name
    platform.await_event(job, "first_step", 1)
    healed = platform.healed(name)
    assert healed.status.replacement.proven_off_at is not None
    assert not centre.power.is_on(load_inventory(platform.paths.state).host(second))


def test_a_job_that_crashed_before_the_fence_comes_back(platform: Platform) -> None:
    """The rank dies and the batch script ends non-zero; the kernel's line comes only then."""
    job, (_, second) = platform.running()
    platform.seen_by_agent(job, second)
    platform.end_by_itself(job)
    platform.inject(second, bite="silent")
    name = platform.incident(second).metadata.name
    platform.await_event(job, "first_step", 1)
    platform.healed(name)
    assert platform.job_record(name, job).crashed_by_itself


@pytest.mark.parametrize("stage", [NodeStage.FENCED, NodeStage.DRAINED, NodeStage.REPLACED])
def test_the_controller_is_killed_and_the_other_one_finishes(platform: Platform, stage: NodeStage) -> None:
    job, (_, second) = platform.running(SAVE_SECONDS=1)
    platform.inject(second)
    name = platform.incident(second).metadata.name
    platform.kill_when(name, stage)
    platform.healed(name)
    platform.await_event(job, "first_step", 1, HEAL_SECONDS)
    assert len(platform.inbox.of("incident.detected")) == 1
    hosts = kubectl(platform.paths, "-n", NAMESPACE, "get", "gpuhosts", "-o", "jsonpath={.items[*].status.phase}")
    assert sorted(hosts.split()) == ["Active", "Active", "Quarantined"]
