"""Kubernetes in memory, for tests: resourceVersions, preconditions, watches, evictions, and faults on demand.

It follows the API server where our code depends on it: stale writes conflict, ``status`` is written by its subresource
alone, deleting a Node takes its pods along (as the pod garbage collector does), pods of a dead node linger.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, cast

from sparewheel.api.base import format_time
from sparewheel.api.names import GROUP
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.memory_changes import Changes, in_pages
from sparewheel.kube.memory_faults import Call, FaultRule, Verb, raise_first
from sparewheel.kube.objects import budget_blocks, clone, fields_match, labels_match, merged, same_but_for_version
from sparewheel.kube.port import (
    NODE,
    PDB,
    POD,
    ConflictError,
    Json,
    Keep,
    Key,
    KubeError,
    Listing,
    NotFoundError,
    Resource,
    TooManyRequestsError,
    WatchEvent,
)


@dataclass(slots=True)
class MemoryKube:
    """Implements ``sparewheel.kube.port.Kube``."""

    clock: Clock = field(default_factory=SystemClock)
    calls: list[Call] = field(default_factory=list[Call])
    """Every request in order; reads too."""
    faults: list[FaultRule] = field(default_factory=list[FaultRule])
    before: Callable[[Call], None] | None = None
    """Called before each request takes effect; may raise."""
    after: Callable[[Call], None] | None = None
    """Called after each request took effect; may raise: the caller then doesn't know that it did."""
    dead_nodes: set[str] = field(default_factory=set[str])
    """Nodes whose kubelet answers no more: their pods stay Terminating until force-deleted or the Node goes."""
    blocked_evictions: set[Key] = field(default_factory=set[Key])
    """Pods (namespace, name) whose eviction a budget blocks, besides those that a stored PodDisruptionBudget blocks."""
    _version: int = 1
    _made: Iterator[int] = field(default_factory=lambda: count(1))
    """Uids and made-up names come from it, so that they are the same in each run."""
    _objects: dict[Resource, dict[Key, Json]] = field(default_factory=dict[Resource, dict[Key, Json]])
    """What is stored is never changed, but replaced; what is given out is a copy."""
    _changes: Changes = field(default_factory=Changes)

    # ------------------------------------------------------------------ for tests
    def put(self, resource: Resource, body: Json, namespace: str | None = None) -> Json:
        """Store an object as it stands, status included; no hooks, no preconditions. Returns it as stored, to read."""
        body = clone(body)
        key = self._key(resource, str(body["metadata"]["name"]), namespace or body["metadata"].get("namespace"))
        existing = self._table(resource).get(key)
        return self._store(resource, key, body, existing)

    def drop(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Remove an object at once, a Node with its pods; no hooks."""
        self._remove(resource, self._key(resource, name, namespace))

    def peek(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """The object, without hooks and without being recorded."""
        return clone(self._table(resource).get(self._key(resource, name, namespace)))

    def fail(
        self,
        error: BaseException,
        verb: Verb | None = None,
        resource: Resource | None = None,
        name: str | None = None,
        *,
        when: Literal["before", "after"] = "before",
        times: int = 1,
    ) -> None:
        """Let the next matching requests fail."""
        self.faults.append(FaultRule(error, verb, resource, name, when, times))

    def end_watches(self, *, expire: bool = False) -> None:
        """End all open watches; ``expire`` makes every resourceVersion known so far too old to watch from."""
        if expire:
            self._version += 1
            self._changes.forget(self._version)
        self._changes.end_watches()

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.writes]

    # ------------------------------------------------------------------ the port
    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        call = Call("get", resource, name, namespace)
        await self._begin(call)
        found = clone(self._existing(call))
        self._end(call)
        return found

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        field_selector: str | None = None,
        keep: Keep | None = None,
    ) -> Listing:
        call = Call("list", resource, "", namespace)
        await self._begin(call)
        items = [
            clone(body)
            for (space, _), body in sorted(self._table(resource).items())
            if (namespace is None or space == namespace)
            and labels_match(body, label_selector or {})
            and fields_match(body, field_selector)
        ]
        self._end(call)
        return Listing(items if keep is None else [keep(item) for item in items], str(self._version))

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> AsyncGenerator[Listing, None]:
        for page in in_pages(await self.list(resource, namespace, label_selector, keep=keep)):
            yield page

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        call = Call("watch", resource, "", namespace)
        await self._begin(call)
        since, labels = int(resource_version or 0), label_selector or {}
        async with aclosing(self._changes.watch(resource, since, namespace, labels)) as changes:
            async for event in changes:
                yield event

    async def create(self, resource: Resource, body: Json, namespace: str | None = None) -> Json:
        body = clone(body)
        space = namespace or body["metadata"].get("namespace")
        name = str(body["metadata"].get("name") or f"{body['metadata']['generateName']}{next(self._made):05x}")
        body["metadata"]["name"] = name
        call = Call("create", resource, name, space, body=clone(body))
        await self._begin(call)
        key = self._key(resource, name, space)
        if key in self._table(resource):
            raise ConflictError(f"create {resource.kind} {name}: 409 already exists")
        if resource not in {NODE, PDB, POD}:
            body.pop("status", None)
        stored = clone(self._store(resource, key, body, None))
        self._end(call)
        return stored

    async def replace(
        self, resource: Resource, body: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        body = clone(body)
        space = namespace or body["metadata"].get("namespace")
        call = Call("replace", resource, str(body["metadata"]["name"]), space, subresource, body)
        await self._begin(call)
        return self._update(call, body)

    async def merge_patch(
        self, resource: Resource, name: str, patch: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        call = Call("patch", resource, name, namespace, subresource, clone(patch))
        await self._begin(call)
        existing = self._existing(call)
        wanted_version = patch.get("metadata", {}).get("resourceVersion")
        body = merged(existing, patch)
        version = wanted_version or existing["metadata"]["resourceVersion"]
        body["metadata"] = {**body["metadata"], "resourceVersion": version}
        return self._update(call, body)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        call = Call("delete", resource, name, namespace, body={"uid": uid, "graceSeconds": grace_seconds})
        await self._begin(call)
        self._delete(call, uid, force=grace_seconds == 0)
        self._end(call)

    async def evict(self, pod: str, namespace: str, uid: str | None = None) -> None:
        call = Call("evict", POD, pod, namespace, body={"uid": uid})
        await self._begin(call)
        body = self._existing(call)
        if (namespace, pod) in self.blocked_evictions or budget_blocks(self._table(PDB).items(), body, namespace):
            raise TooManyRequestsError(
                f"evict Pod {namespace}/{pod}: 429 Cannot evict pod as it would violate the pod's disruption budget."
            )
        self._delete(call, uid, force=False)
        self._end(call)

    # ------------------------------------------------------------------ inside
    async def _begin(self, call: Call) -> None:
        self.calls.append(call)
        await asyncio.sleep(0)  # every request is a point where others run
        if self.before is not None:
            self.before(call)
        raise_first(self.faults, call, "before")

    def _end(self, call: Call) -> None:
        if self.after is not None:
            self.after(call)
        raise_first(self.faults, call, "after")

    def _table(self, resource: Resource) -> dict[Key, Json]:
        return self._objects.setdefault(resource, {})

    def _key(self, resource: Resource, name: str, namespace: str | None) -> Key:
        if resource.namespaced and not namespace:
            raise KubeError(f"{resource.kind} {name}: a namespaced kind needs a namespace")
        return (namespace or "") if resource.namespaced else "", name

    def _existing(self, call: Call) -> Json:
        found = self._table(call.resource).get(self._key(call.resource, call.name, call.namespace))
        if found is None:
            raise NotFoundError(f"{call.verb} {call.resource.kind} {call.name}: 404 not found")
        return found

    def _update(self, call: Call, body: Json) -> Json:
        existing = self._existing(call)
        for precondition in ("resourceVersion", "uid"):
            wanted = body["metadata"].get(precondition)
            if wanted is not None and wanted != existing["metadata"][precondition]:
                raise ConflictError(f"{call.verb} {call.resource.kind} {call.name}: 409 {precondition} differs")
        spec, status = (existing, body) if call.subresource == "status" else (body, existing)
        result = {key: value for key, value in spec.items() if key != "status"}
        result["metadata"] = {**spec["metadata"]}
        if "status" in status or call.subresource == "status":
            result["status"] = status.get("status", {})
        stored = self._store(call.resource, self._key(call.resource, call.name, call.namespace), result, existing)
        answer = clone(stored)
        self._end(call)
        return answer

    def _store(self, resource: Resource, key: Key, body: Json, existing: Json | None) -> Json:
        metadata = cast("Json", body.setdefault("metadata", {}))
        body["kind"] = resource.kind
        body["apiVersion"] = f"{resource.group}/{resource.version}" if resource.group else resource.version
        if key[0]:
            metadata["namespace"] = key[0]
        old = cast("Json", existing["metadata"]) if existing else {}
        metadata["uid"] = old.get("uid") or metadata.get("uid") or str(uuid.UUID(int=next(self._made)))
        metadata["creationTimestamp"] = old.get("creationTimestamp") or format_time(self.clock.now())
        if existing is not None and same_but_for_version(existing, body):
            return existing  # a write that changes nothing makes no new version
        if resource.group == GROUP:
            changed = existing is None or existing.get("spec") != body.get("spec")
            metadata["generation"] = int(old.get("generation", 0)) + (1 if changed else 0)
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self._table(resource)[key] = body
        self._changes.add(self._version, resource, key[0], "MODIFIED" if existing else "ADDED", body)
        return body

    def _delete(self, call: Call, uid: str | None, *, force: bool) -> None:
        body = self._existing(call)
        if uid is not None and uid != body["metadata"]["uid"]:
            raise ConflictError(f"{call.verb} {call.resource.kind} {call.name}: 409 uid precondition failed")
        key = self._key(call.resource, call.name, call.namespace)
        if call.resource == POD and not force and body.get("spec", {}).get("nodeName") in self.dead_nodes:
            body = clone(body)
            body["metadata"].setdefault("deletionTimestamp", format_time(self.clock.now()))
            self._store(POD, key, body, self._existing(call))
            return
        self._remove(call.resource, key)

    def _remove(self, resource: Resource, key: Key) -> None:
        body = clone(self._table(resource).pop(key))
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self._changes.add(self._version, resource, key[0], "DELETED", body)
        if resource == NODE:
            for pod_key, pod in list(self._table(POD).items()):
                held = pod["metadata"].get("finalizers")
                if pod.get("spec", {}).get("nodeName") == key[1] and not held:
                    self._remove(POD, pod_key)
