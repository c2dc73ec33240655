"""Waits for a new cluster: until there is a kubeconfig, and the API server that it names answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from sparewheel.clock import Clock
from sparewheel.kube.access import from_text
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NAMESPACE_KIND, KubeError, UnavailableError

LOOK_SECONDS: Final = 5.0


async def until_it_answers(
    kubeconfig_of: Callable[[], Awaitable[str]],
    clock: Clock,
    deadline_seconds: float,
    not_yet: type[Exception] = UnavailableError,
) -> str:
    """The kubeconfig with which the API server answered. ``not_yet``: raised by ``kubeconfig_of`` while there is none.

    UnavailableError when the time is over; it says what was in the way last.
    """
    end = clock.monotonic_seconds() + deadline_seconds
    while True:
        try:
            kubeconfig = await kubeconfig_of()
            async with KubeClient(from_text(kubeconfig), read_attempts=1) as kube:
                await kube.get(NAMESPACE_KIND, "kube-system")
        except (KubeError, not_yet) as error:
            if clock.monotonic_seconds() >= end:
                took = f"the cluster's API server did not answer within {deadline_seconds:g} s"
                raise UnavailableError(f"{took}; run it again, it goes on; last: {error}") from error
        else:
            return kubeconfig
        await clock.sleep(LOOK_SECONDS)
