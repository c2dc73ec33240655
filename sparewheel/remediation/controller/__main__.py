"""Wires the real ports and runs until told to stop. All state is in the cluster: ending is always safe."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import httpx

from sparewheel import __version__
from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.capacity.heard import Reports, Watched
from sparewheel.capacity.providers import providers
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.clock import SystemClock
from sparewheel.heap import give_back_for_ever, glibc_trim
from sparewheel.kube.access import AccessError, from_environment, from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.lease import new_identity
from sparewheel.kube.pace import Pace
from sparewheel.kube.port import SECRET, Kube
from sparewheel.notify.client import RouteNotifier
from sparewheel.remediation.controller.health import serve_health
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.controller.pools import PoolState
from sparewheel.remediation.controller.settings import Settings, read_settings
from sparewheel.slurm.client import SlurmClient
from sparewheel.slurm.token import FileToken, SecretToken, TokenSource

log = logging.getLogger("sparewheel.remediation")


def set_up_logging() -> None:
    """One line per event, UTC; the libraries only from warnings on."""
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("sparewheel").setLevel(logging.INFO)
    for library in ("httpx", "httpcore", "aiosmtplib"):
        logging.getLogger(library).setLevel(logging.WARNING)  # below that they write addresses and dialogues


def token_source(settings: Settings, kube: Kube, clock: SystemClock) -> TokenSource:
    if settings.token_file is not None:
        return FileToken(settings.token_file)
    return SecretToken(kube, settings.token_namespace, settings.token_secret, settings.token_key, clock)


def identity_of(settings: Settings) -> str:
    """The replica's name and what no other process has, its own next life included."""
    host, _, unique = new_identity().rpartition("_")
    return f"{settings.identity or host}_{unique}"


async def build(settings: Settings, stack: AsyncExitStack) -> Controller:
    """The controller over the real ports; ``stack`` closes them."""
    clock = SystemClock()
    access = from_file(settings.kubeconfig) if settings.kubeconfig is not None else from_environment()
    rate = settings.api_calls_per_second
    pace = Pace(clock, rate, burst=max(1.0, rate), in_flight=settings.api_calls_in_flight)
    kube = await stack.enter_async_context(KubeClient(access, pace=pace))
    token = token_source(settings, kube, clock)
    slurm = await stack.enter_async_context(SlurmClient(settings.slurm_url, token, user=settings.slurm_user))
    http = await stack.enter_async_context(httpx.AsyncClient())
    holder: list[Controller] = []

    def watched(node: str) -> Watched | None:
        return holder[0].state.watched(node)

    reports = Reports(watched)

    def policy() -> RemediationPolicySpec:
        return holder[0].state.policy_spec

    async def secret_of(ref: SecretKeyRef) -> str:
        secret = await kube.get(SECRET, ref.name, settings.namespace)
        try:
            return base64.b64decode(secret["data"][ref.key], validate=True).decode().strip()
        except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
            raise ValueError("the secret's key is missing or no text") from error

    async def reconcile(pool: str, check: Callable[[], None]) -> PoolState:
        return await reconcile_pool(kube, settings.namespace, pool, clock, reports, before_write=check)

    controller = Controller(
        kube=kube,
        slurm=slurm,
        replacer=PoolReplacer(kube, clock, providers(kube, clock), reports),
        notifier=RouteNotifier(policy, secret_of, http, clock.now),
        clock=clock,
        namespace=settings.namespace,
        identity=identity_of(settings),
        version=__version__,
        reconcile_pool=reconcile,
        jitter=random.random,
    )
    holder.append(controller)
    return controller


async def main(settings: Settings) -> int:
    async with AsyncExitStack() as stack:
        try:
            controller = await build(settings, stack)
        except AccessError as error:
            log.error("event=no_access error=%s", error)
            return 2
        if settings.health_port:
            await stack.enter_async_context(serve_health(settings.health_port, controller))
        heap = asyncio.create_task(give_back_for_ever(controller.clock, glibc_trim()), name="heap")
        stack.callback(heap.cancel)
        running = asyncio.create_task(controller.run(), name="controller")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running
    return 0


if __name__ == "__main__":
    set_up_logging()
    sys.exit(asyncio.run(main(read_settings(sys.argv[1:]))))
