"""What every reconciler needs: the cluster, the clock, Slurm, and small steps that they share."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from lab.standins.slinky import names
from lab.standins.slinky.builders.common import jwt_ref
from lab.standins.slinky.kube import MERGE, Kube, KubeError
from lab.standins.slinky.objects import Obj, decoded, dig, format_time, name_of, namespace_of, uid_of
from lab.standins.slinky.pace import EVENT_REPEAT_SECONDS
from lab.standins.slinky.queue import ExpectedError
from lab.standins.slinky.slurm_rest import SlurmRest
from lab.standins.slinky.store import Store
from sparewheel.clock import Clock

log: Final = logging.getLogger(__name__)


@dataclass
class Context:
    """Shared by all reconcilers. ``slurmrestd_url`` replaces the Service's address (a run outside the cluster)."""

    kube: Kube
    store: Store
    clock: Clock
    http: httpx.AsyncClient
    slurmrestd_url: str = ""
    _slurm: dict[tuple[str, str], SlurmRest] = field(default_factory=dict[tuple[str, str], SlurmRest])
    _told: dict[tuple[str, str, str], float] = field(default_factory=dict[tuple[str, str, str], float])

    async def apply(self, obj: Obj) -> Obj:
        """Make it so, and remember what the API server made of it."""
        out = await self.kube.apply(obj)
        out["kind"] = obj["kind"]
        self.store.put(out)
        return out

    async def patch(self, obj: Obj, body: Obj, *, subresource: str = "", content_type: str = MERGE) -> Obj:
        """Change parts of an object, and remember the result. An object that is gone is left alone."""
        try:
            out = await self.kube.patch(obj, body, subresource=subresource, content_type=content_type)
        except KubeError as error:
            if error.code == 404:
                return obj
            raise
        out["kind"] = obj["kind"]
        self.store.put(out)
        return out

    def controller(self, obj: Obj) -> Obj:
        """The Controller that ``spec.controllerRef`` names. Raises ExpectedError while it isn't there."""
        name = dig(obj, "spec", "controllerRef", "name", default="")
        found = self.store.get("Controller", namespace_of(obj), name)
        if found is None:
            raise ExpectedError(f"spec.controllerRef: Controller {namespace_of(obj)}/{name} doesn't exist yet")
        return found

    def secret_value(self, namespace: str, ref: Obj) -> bytes:
        """One key of a Secret. Raises ExpectedError while it isn't there."""
        secret = self.store.get("Secret", namespace, ref.get("name", ""))
        value = decoded(secret).get(ref["key"]) if secret else None
        if value is None:
            raise ExpectedError(f"Secret {namespace}/{ref.get('name', '')} with key {ref['key']} doesn't exist yet")
        return value

    def secret_contents(self, namespace: str, name: str) -> dict[str, str]:
        """A Secret's data as stored, for a hash; empty where there is none."""
        secret = self.store.get("Secret", namespace, name)
        return dig(secret, "data", default={})

    def slurm(self, controller: Obj) -> SlurmRest | None:
        """slurmrestd of a Controller; None while no RestApi refers to it. Of several the oldest is used."""
        namespace, name = namespace_of(controller), name_of(controller)
        found = [
            one for one in self.store.all("RestApi", namespace) if dig(one, "spec", "controllerRef", "name") == name
        ]
        if not found:
            self._slurm.pop((namespace, name), None)
            return None
        oldest = min(found, key=lambda one: (str(dig(one, "metadata", "creationTimestamp")), name_of(one)))
        url = self.slurmrestd_url or f"http://{names.restapi(name_of(oldest))}.{namespace}:{names.SLURMRESTD_PORT}"
        key = self.secret_value(namespace, jwt_ref(controller["spec"]))
        held = self._slurm.get((namespace, name))
        if held is None or held.url != url or held.key != key:
            held = self._slurm[namespace, name] = SlurmRest(self.http, url, key, self.clock)
        return held

    async def set_status(self, obj: Obj, status: Obj) -> None:
        """Write the status fields that differ; those not named stay."""
        held: Obj = obj.get("status") or {}
        change: Obj = {}
        for key, value in status.items():
            if held.get(key) == value:
                continue
            change[key] = value
            if isinstance(value, dict):
                gone: Obj = held.get(key) or {}
                change[key] = {**dict.fromkeys(gone), **value}  # null removes a key
        if change:
            await self.patch(obj, {"status": change}, subresource="status")

    def conditions(self, obj: Obj, wanted: Iterable[tuple[str, bool, str, str]], drop: Iterable[str] = ()) -> list[Obj]:
        """The object's conditions with ``wanted`` (type, status, reason, message) in them and ``drop`` out."""
        old: list[Obj] = dig(obj, "status", "conditions", default=[])
        held: dict[str, Obj] = {one["type"]: one for one in old if one["type"] not in set(drop)}
        for kind, true, reason, message in wanted:
            status = "True" if true else "False"
            before = held.get(kind, {})
            since: Any = before.get("lastTransitionTime") if before.get("status") == status else None
            held[kind] = {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": dig(obj, "metadata", "generation", default=0),
                "lastTransitionTime": since or format_time(self.clock.now()),
            }
        return list(held.values())

    async def event(self, obj: Obj, kind: str, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event on ``obj``; the same words again only after a while."""
        key, at = (uid_of(obj), reason, message), self.clock.monotonic_seconds()
        if at - self._told.get(key, float("-inf")) < EVENT_REPEAT_SECONDS:
            return
        self._told[key] = at
        now = format_time(self.clock.now())
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name_of(obj)}.", "namespace": namespace_of(obj)},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion", names.API_VERSION),
                "kind": kind,
                "name": name_of(obj),
                "namespace": namespace_of(obj),
                "uid": uid_of(obj),
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": "slurm-operator"},
        }
        try:
            await self.kube.create(body)
        except KubeError as error:
            log.warning("event %s on %s not written: %s", reason, name_of(obj), error)
