"""From a pool's spec to the backend that it names, with the keys that the backend needs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from functools import partial

from sparewheel.api.gpu_pool import CrusoeBackend, GpuPool, MachinesBackend, SecretKeyRef
from sparewheel.capacity.backends.warm import WarmProvider
from sparewheel.capacity.port import CapacityError, CapacityProvider
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.port import SECRET, Kube, NotFoundError

ProviderOf = Callable[[GpuPool], Awaitable[CapacityProvider]]


async def provider_for(kube: Kube, pool: GpuPool, clock: Clock) -> CapacityProvider:
    """The pool's backend. Raises CapacityError for a missing key, KubeError when it can't be read."""
    backend, namespace = pool.spec.backend, pool.metadata.namespace or ""
    if isinstance(backend, MachinesBackend):
        from sparewheel.capacity.backends.kubeadm import open_door
        from sparewheel.capacity.backends.machines import MachinesProvider

        power = await _secret(kube, namespace, backend.power.key_ref) if backend.power is not None else ""
        key = await _secret(kube, namespace, backend.key_ref)
        return MachinesProvider(backend, key, power, partial(open_door, kube, clock))
    if isinstance(backend, CrusoeBackend):
        from sparewheel.capacity.backends.crusoe import CrusoeProvider

        key = await _secret(kube, namespace, backend.access.key_ref, "Crusoe's secret key")
        return CrusoeProvider(backend, kube, clock, key, pool.spec.size + pool.spec.spares)
    return WarmProvider(kube, backend.node_selector)


def providers(kube: Kube, clock: Clock | None = None) -> ProviderOf:
    """``provider_for`` on one cluster."""

    async def provider_of(pool: GpuPool) -> CapacityProvider:
        return await provider_for(kube, pool, clock or SystemClock())

    return provider_of


async def _secret(
    kube: Kube, namespace: str, ref: SecretKeyRef, holds: str = "the SSH key for the pool's machines"
) -> str:
    place = f"Secret {namespace}/{ref.name}, key {ref.key}"
    try:
        secret = await kube.get(SECRET, ref.name, namespace)
        return base64.b64decode(secret["data"][ref.key], validate=True).decode()
    except NotFoundError as error:
        raise CapacityError(f"{place} is missing; it holds {holds}") from error
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
        raise CapacityError(f"{place} is missing or no text; it holds {holds}") from error
