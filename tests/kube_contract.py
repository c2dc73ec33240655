"""What every implementation of the Kubernetes port must do; run in memory and against a real API server."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from sparewheel.kube.port import (
    CONFIG_MAP,
    GPU_HOST,
    NODE,
    PDB,
    POD,
    ConflictError,
    Json,
    Kube,
    NotFoundError,
    TooManyRequestsError,
    WatchEvent,
)

SPACE = "default"


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def config_map(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"key": "one"},
    }


def gpu_host(name: str) -> Json:
    return {
        "apiVersion": "sparewheel.dev/v1alpha1",
        "kind": "GpuHost",
        "metadata": {"name": name},
        "spec": {"pool": "gpu", "host": name, "providerId": f"machines://{name}"},
    }


def pod(name: str, node: str, **labels: str) -> Json:
    container = {"name": "c", "image": "none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


class KubeContract:
    """Subclasses give the fixture ``kube``."""

    async def test_absence_is_not_found(self, kube: Kube) -> None:
        with pytest.raises(NotFoundError):
            await kube.get(CONFIG_MAP, unique("none"), SPACE)
        with pytest.raises(NotFoundError):
            await kube.delete(CONFIG_MAP, unique("none"), SPACE)
        with pytest.raises(NotFoundError):
            await kube.merge_patch(CONFIG_MAP, unique("none"), {"data": {"a": "b"}}, SPACE)
        with pytest.raises(NotFoundError):
            await kube.evict(unique("none"), SPACE)

    async def test_creating_twice_conflicts(self, kube: Kube) -> None:
        name = unique("cm")
        created = await kube.create(CONFIG_MAP, config_map(name), SPACE)
        assert created["metadata"]["uid"]
        with pytest.raises(ConflictError):
            await kube.create(CONFIG_MAP, config_map(name), SPACE)

    async def test_replace_is_compare_and_swap(self, kube: Kube) -> None:
        name = unique("cm")
        first = await kube.create(CONFIG_MAP, config_map(name), SPACE)
        await kube.replace(CONFIG_MAP, {**first, "data": {"key": "two"}}, SPACE)
        with pytest.raises(ConflictError):
            await kube.replace(CONFIG_MAP, {**first, "data": {"key": "three"}}, SPACE)
        assert (await kube.get(CONFIG_MAP, name, SPACE))["data"] == {"key": "two"}

    async def test_patch_merges_and_null_removes(self, kube: Kube) -> None:
        name = unique("cm")
        await kube.create(CONFIG_MAP, config_map(name, a="1", b="2"), SPACE)
        patch: Json = {"metadata": {"labels": {"a": None, "c": "3"}}}
        assert (await kube.merge_patch(CONFIG_MAP, name, patch, SPACE))["metadata"]["labels"] == {"b": "2", "c": "3"}

    @pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
    async def test_patch_preconditions(self, kube: Kube, precondition: str) -> None:
        name = unique("cm")
        created = await kube.create(CONFIG_MAP, config_map(name), SPACE)
        other = await kube.create(CONFIG_MAP, config_map(unique("cm")), SPACE)
        wrong: Json = {"metadata": {precondition: other["metadata"][precondition]}, "data": {"key": "two"}}
        with pytest.raises(ConflictError):
            await kube.merge_patch(CONFIG_MAP, name, wrong, SPACE)
        right: Json = {"metadata": {precondition: created["metadata"][precondition]}, "data": {"key": "two"}}
        assert (await kube.merge_patch(CONFIG_MAP, name, right, SPACE))["data"] == {"key": "two"}

    async def test_delete_precondition(self, kube: Kube) -> None:
        name = unique("cm")
        created = await kube.create(CONFIG_MAP, config_map(name), SPACE)
        with pytest.raises(ConflictError):
            await kube.delete(CONFIG_MAP, name, SPACE, uid=str(uuid.uuid4()))
        await kube.delete(CONFIG_MAP, name, SPACE, uid=created["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            await kube.get(CONFIG_MAP, name, SPACE)

    async def test_status_is_written_by_its_subresource_alone(self, kube: Kube) -> None:
        name = unique("host")
        created = await kube.create(GPU_HOST, {**gpu_host(name), "status": {"reason": "ignored"}}, SPACE)
        assert "status" not in created
        await kube.merge_patch(GPU_HOST, name, {"status": {"reason": "ignored"}}, SPACE)
        assert "status" not in await kube.get(GPU_HOST, name, SPACE)
        patch: Json = {"status": {"reason": "kept"}, "spec": {"pool": "ignored"}}
        stored = await kube.merge_patch(GPU_HOST, name, patch, SPACE, "status")
        assert (stored["status"]["reason"], stored["spec"]["pool"]) == ("kept", "gpu")
        generation = stored["metadata"]["generation"]
        changed = await kube.merge_patch(GPU_HOST, name, {"spec": {"instanceType": "h200"}}, SPACE)
        assert (changed["status"]["reason"], changed["metadata"]["generation"]) == ("kept", generation + 1)

    async def test_two_writers_one_wins(self, kube: Kube) -> None:
        name = unique("host")
        first = await kube.create(GPU_HOST, gpu_host(name), SPACE)
        bodies = [{**first, "status": {"reason": owner}} for owner in ("a", "b", "c")]
        results = await asyncio.gather(
            *(kube.replace(GPU_HOST, body, SPACE, "status") for body in bodies), return_exceptions=True
        )
        assert sum(isinstance(result, ConflictError) for result in results) == 2

    async def test_list_selects(self, kube: Kube) -> None:
        group = unique("group")
        for index in range(3):
            await kube.create(CONFIG_MAP, config_map(unique("cm"), group=group, index=str(index)), SPACE)
        listing = await kube.list(CONFIG_MAP, SPACE, {"group": group, "index": "1"})
        assert [item["metadata"]["labels"]["index"] for item in listing.items] == ["1"]
        assert listing.items[0]["kind"] == "ConfigMap"
        name = listing.items[0]["metadata"]["name"]
        assert len((await kube.list(CONFIG_MAP, SPACE, field_selector=f"metadata.name={name}")).items) == 1
        assert len((await kube.list(CONFIG_MAP, label_selector={"group": group})).items) == 3

    async def test_watch_goes_on_from_a_version(self, kube: Kube) -> None:
        name = unique("cm")
        start = (await kube.list(CONFIG_MAP, SPACE)).resource_version
        await kube.create(CONFIG_MAP, config_map(name), SPACE)
        await kube.merge_patch(CONFIG_MAP, name, {"data": {"key": "two"}}, SPACE)
        seen: list[WatchEvent] = []
        async with asyncio.timeout(10):
            async for event in kube.watch(CONFIG_MAP, start, SPACE):
                if event.object["metadata"].get("name") != name:
                    continue
                seen.append(event)
                if len(seen) == 2:
                    await kube.delete(CONFIG_MAP, name, SPACE)
                if len(seen) == 3:
                    break
        assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]

    async def test_a_budget_blocks_an_eviction(self, kube: Kube) -> None:
        node, name, app = unique("node"), unique("pod"), unique("app")
        await kube.create(NODE, {"metadata": {"name": node}})
        await kube.create(POD, pod(name, node, app=app), SPACE)
        await kube.merge_patch(
            POD,
            name,
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            SPACE,
            "status",
        )
        budget: Json = {
            "metadata": {"name": name},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        }
        created = await kube.create(PDB, budget, SPACE)
        status = {
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": created["metadata"].get("generation", 1),
        }
        await kube.merge_patch(PDB, name, {"status": status}, SPACE, "status")
        with pytest.raises(TooManyRequestsError):
            await kube.evict(name, SPACE)
        await kube.delete(PDB, name, SPACE)
        with pytest.raises(ConflictError):
            await kube.evict(name, SPACE, uid=str(uuid.uuid4()))
        await kube.evict(name, SPACE)
        with pytest.raises(NotFoundError):
            await kube.get(POD, name, SPACE)
