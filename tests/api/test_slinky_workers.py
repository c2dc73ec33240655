"""The stand-in against a real API server and a small slurmrestd: what happens to worker pods and Slurm nodes."""

from __future__ import annotations

import asyncio

from tests.api.slinky_cluster import CORDON, PROTECT, Cluster, has, two_workers, wait_for
from tests.unit.standins import slinky_objects as given


async def test_a_cordon_drains_and_an_uncordon_undrains(cluster: Cluster) -> None:
    await two_workers(cluster)
    await cluster.set_host("host-1", cordoned=True, reason="XID 79 on GPU 3")
    why = "slurm-operator: XID 79 on GPU 3"
    pod = await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDrain", why), "isn't shown as drained")
    assert pod["metadata"]["annotations"][CORDON] == "true"
    assert "DRAIN" in cluster.slurm.states("gpu-0")
    assert "DRAIN" not in cluster.slurm.states("gpu-1")
    await cluster.set_host("host-1", cordoned=False)
    await wait_for(lambda: "DRAIN" not in cluster.slurm.states("gpu-0"), "the drain wasn't taken back")
    await cluster.until("Pod", "gpu-0", lambda one: CORDON not in one["metadata"]["annotations"], "stayed cordoned")


async def test_an_admins_drain_is_left_alone(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.register("gpu-0", "IDLE", "DRAIN", reason="bad HBM", comment=cluster.slurm.nodes["gpu-0"]["comment"])
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDrain", "bad HBM"), "isn't shown")
    await cluster.set_host("host-1", cordoned=True, reason="mine")
    await cluster.set_host("host-1", cordoned=False)
    await asyncio.sleep(1.0)
    assert cluster.slurm.nodes["gpu-0"]["reason"] == "bad HBM"
    assert "DRAIN" in cluster.slurm.states("gpu-0")


async def test_a_busy_worker_is_protected(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-0"]["state"] = ["ALLOCATED"]
    pod = await cluster.until("Pod", "gpu-0", lambda one: one["metadata"]["labels"].get(PROTECT), "isn't protected")
    assert has("SlurmNodeStateAllocated")(pod)
    nodeset = await cluster.until("NodeSet", "gpu", lambda one: one["status"]["slurmAllocated"] == 1, "counts none")
    assert nodeset["status"]["slurmIdle"] == 1
    cluster.slurm.nodes["gpu-0"]["state"] = ["IDLE"]
    await cluster.until("Pod", "gpu-0", lambda one: not one["metadata"]["labels"].get(PROTECT), "stays protected")


async def test_a_pod_stuck_in_deletion_holds_its_place_and_a_moved_one_is_set_idle_once(cluster: Cluster) -> None:
    await two_workers(cluster)
    before = await cluster.get("Pod", "gpu-0")
    assert before is not None
    assert "host-1" in cluster.slurm.nodes["gpu-0"]["comment"]
    await cluster.delete_pod("gpu-0")
    cluster.slurm.nodes["gpu-0"].update(state=["DOWN"], reason="sparewheel: XID 79")
    await asyncio.sleep(1.0)
    held = await cluster.get("Pod", "gpu-0")
    assert held is not None
    assert held["metadata"]["uid"] == before["metadata"]["uid"]
    await cluster.delete_pod("gpu-0", force=True)
    await cluster.until_gone("Pod", "gpu-0", before["metadata"]["uid"])
    await cluster.run_pod("gpu-0", "host-3")
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateIdle"), "was not set idle")
    assert '"node":"host-3"' in cluster.slurm.nodes["gpu-0"]["comment"]
    idle = [body for name, body in cluster.slurm.writes if name == "gpu-0" and body.get("state") == ["IDLE"]]
    assert len(idle) == 1
    cluster.slurm.nodes["gpu-0"].update(state=["DOWN"], reason="sparewheel: again")
    await cluster.until("Pod", "gpu-0", has("SlurmNodeStateDown"), "isn't shown as down")
    await asyncio.sleep(0.8)
    assert "DOWN" in cluster.slurm.states("gpu-0")


async def test_scale_in_drains_before_it_deletes(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-1"]["state"] = ["ALLOCATED"]
    pod = await cluster.until("Pod", "gpu-1", has("SlurmNodeStateAllocated"), "isn't shown as busy")
    await cluster.put(given.nodeset(replicas=1))
    await wait_for(lambda: "DRAIN" in cluster.slurm.states("gpu-1"), "was not drained")
    assert cluster.slurm.nodes["gpu-1"]["reason"].endswith("is pending termination for scale-in")
    await asyncio.sleep(0.8)
    assert (await cluster.get("Pod", "gpu-1") or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    cluster.slurm.nodes["gpu-1"]["state"] = ["IDLE", "DRAIN"]
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")
    assert "DRAIN" not in cluster.slurm.states("gpu-0")


async def test_scale_in_taken_back_undrains(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.nodes["gpu-1"]["state"] = ["ALLOCATED"]
    await cluster.put(given.nodeset(replicas=1))
    await wait_for(lambda: "DRAIN" in cluster.slurm.states("gpu-1"), "was not drained")
    await cluster.put(given.nodeset(replicas=2))
    await wait_for(lambda: "DRAIN" not in cluster.slurm.states("gpu-1"), "stayed drained")


async def test_an_answer_with_errors_decides_nothing(cluster: Cluster) -> None:
    await two_workers(cluster)
    cluster.slurm.failing = True
    await cluster.put(given.nodeset(replicas=0))
    await asyncio.sleep(1.0)
    for number in (0, 1):
        pod = await cluster.get("Pod", f"gpu-{number}")
        assert pod is not None
        assert "deletionTimestamp" not in pod["metadata"]
    cluster.slurm.failing = False
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was never let go")


async def test_an_unregistered_healthy_pod_is_made_again(cluster: Cluster) -> None:
    await two_workers(cluster)
    before = await cluster.get("Pod", "gpu-1")
    assert before is not None
    del cluster.slurm.nodes["gpu-1"]
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")


async def test_a_new_image_rolls_one_worker_at_a_time(cluster: Cluster) -> None:
    await two_workers(cluster)
    await cluster.put(given.nodeset(slurmd={"image": "x/slurmd:next"}))
    old = await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not replaced")
    assert "DRAIN" in cluster.slurm.states("gpu-1")
    first = await cluster.get("Pod", "gpu-0")
    assert first is not None
    assert "deletionTimestamp" not in first["metadata"]
    await cluster.delete_pod("gpu-1", force=True)
    await cluster.until_gone("Pod", "gpu-1", old["metadata"]["uid"])
    made = await cluster.run_pod("gpu-1", "host-3")
    assert made["spec"]["containers"][0]["image"] == "x/slurmd:next"
    await cluster.until("Pod", "gpu-0", lambda one: one["metadata"].get("deletionTimestamp"), "was never replaced")


async def test_without_a_restapi_a_worker_counts_as_drained(cluster: Cluster) -> None:
    await cluster.put(given.controller())
    await cluster.put(given.nodeset())
    for number in (0, 1):
        await cluster.run_pod(f"gpu-{number}", f"host-{number + 1}")
    await cluster.put(given.nodeset(replicas=1))
    await cluster.until("Pod", "gpu-1", lambda one: one["metadata"].get("deletionTimestamp"), "was not deleted")
    controller = await cluster.until("Controller", "slurm", lambda one: one.get("status"), "has no status")
    assert controller["status"]["conditions"][0]["reason"] == "NoSlurmClient"
