"""PoolCapacity: the dynamic resource that asks for a pool's machines. A thin shell over ``sparewheel.capacity``.

Contract: check and diff do no I/O; create and update may be run again at any time and end in the same state; read says
what the pool's spec is in the cluster, never which hosts it has or how they are, so a healing is no drift; delete
releases the hosts of its own incarnation only, since a forced replacement creates first and deletes afterwards.
The provider class lives here, in a module without side effects: the state refers to it by this import path.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown

from components.plainly import plainly
from sparewheel.api.gpu_pool import GpuPoolSpec
from stacks.crusoe import MADE_HERE

DECLARED: Final = ("kubeconfig", "namespace", "pool", "spec", "deadlineSeconds")
Props = dict[str, Any]


def declared(props: Props) -> Props:
    """The declared fields alone, in one form: numbers as the model has them, ``__provider`` and all else left out."""
    found = {key: props[key] for key in DECLARED if key in props}
    if isinstance(found.get("spec"), dict):
        found["spec"] = canonical(found["spec"])
    if "deadlineSeconds" in found:
        found["deadlineSeconds"] = int(found["deadlineSeconds"])
    return found


def canonical(spec: dict[str, Any]) -> dict[str, Any]:
    """A GpuPool's spec in one form; the engine turns every whole number into a float on its way."""
    try:
        return GpuPoolSpec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValueError:
        return spec  # written by another version of the model: as it is, it differs, and an update sets it right


def incarnation_of(resource_id: str) -> str:
    """``namespace/pool@incarnation`` -> the incarnation."""
    return resource_id.partition("@")[2]


class PoolCapacityProvider(ResourceProvider):
    """Brings a pool's machines to what its GpuPool says, by the one code that does so."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        failures = [CheckFailure(key, f"{key} is missing") for key in DECLARED if news.get(key) is None]
        if failures:
            return CheckResult(news, failures)
        try:
            GpuPoolSpec.model_validate(_with_node_pool(news["spec"]))
        except ValueError as error:
            failures.append(CheckFailure("spec", f"pool {news['pool']}: {error}"))
        failures += _immutable(_olds, news) if _olds else []
        return CheckResult({**news, **declared(news)}, failures)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(changes=declared(_olds) != declared(_news), replaces=[], delete_before_replace=False)

    def create(self, props: Props) -> CreateResult:
        incarnation = uuid.uuid4().hex[:12]
        self._drive(props, incarnation)
        return CreateResult(f"{props['namespace']}/{props['pool']}@{incarnation}", declared(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        self._drive(_news, incarnation_of(_id))
        return UpdateResult(declared(_news))

    def read(self, id_: str, props: Props) -> ReadResult:
        from sparewheel.capacity import driver

        spec = _run(driver.read_spec(_target(props)))
        if spec is None:
            return ReadResult("", {})
        now = {**declared(props), "spec": canonical(spec)}
        return ReadResult(id_, now, now)

    def delete(self, _id: str, _props: Props) -> None:
        from sparewheel.capacity import driver

        props = declared(_props)
        _run(driver.release_pool(_target(props), incarnation_of(_id), props["deadlineSeconds"], _say(props)))

    def _drive(self, props: Props, incarnation: str) -> None:
        from sparewheel.capacity import driver

        props = declared(props)
        desired = GpuPoolSpec.model_validate(props["spec"])
        _run(driver.drive_pool(_target(props), desired, incarnation, props["deadlineSeconds"], _say(props)))


def _with_node_pool(spec: Props) -> Props:
    """For the model: a node pool that this stack is still to make has no id yet."""
    backend: Props = spec.get("backend") or {}
    if not isinstance(backend.get("nodePoolId"), Unknown):
        return spec
    return {**spec, "backend": {**backend, "nodePoolId": MADE_HERE}}


def _immutable(olds: Props, news: Props) -> list[CheckFailure]:
    """A pool's name and the kind of its machines are for life; the message says what to do instead."""
    failures = [
        CheckFailure(key, f"a pool's {key} can't change from {olds[key]} to {news[key]}: {_INSTEAD}")
        for key in ("namespace", "pool")
        if key in olds and olds[key] != news[key]
    ]
    old, new = (str(props.get("spec", {}).get("backend", {}).get("kind", "")) for props in (olds, news))
    if old and old != new:
        failures.append(CheckFailure("spec", f"pool {news['pool']} can't change from {old} to {new}: {_INSTEAD}"))
    return failures


_INSTEAD: Final = "add a second pool, let its jobs end, then take the first out of the stack"


def _target(props: Props) -> Any:
    from sparewheel.capacity import driver

    return driver.Target(str(props["kubeconfig"]), str(props["namespace"]), str(props["pool"]))


def _say(props: Props) -> Callable[[str], None]:
    """Progress as the engine shows it: a plugin's output, one line at a time."""

    def say(text: str) -> None:
        print(f"pool {props['pool']}: {text}", flush=True)

    return say


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, in a thread of the plugin that has no loop of its own."""
    with plainly():
        return asyncio.run(work)


class PoolCapacity(Resource, module="sparewheel", name="PoolCapacity"):
    """The machines of one pool. No output says which they are: that is stale at the first healing.

    ``spec``: the GpuPool's, as the API server takes it.
    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        namespace: str,
        pool: str,
        spec: Mapping[str, Any],
        deadline_seconds: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(
            PoolCapacityProvider(),
            name,
            {
                "kubeconfig": pulumi.Output.secret(kubeconfig),
                "namespace": namespace,
                "pool": pool,
                "spec": dict(spec),
                "deadlineSeconds": deadline_seconds,
            },
            pulumi.ResourceOptions.merge(opts, secret),
        )
