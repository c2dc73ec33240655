"""The breaker's state in the policy: also when another controller left it there, and never in the way of the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from sparewheel.api.names import NAMESPACE, POLICY_NAME
from sparewheel.kube.port import REMEDIATION_POLICY, UnavailableError
from sparewheel.remediation.controller.breaker import Breaker
from tests.support.world import World

pytestmark = pytest.mark.looptime


def shown(world: World) -> bool | None:
    policy = world.kube.peek(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE)
    assert policy is not None
    return policy.get("status", {}).get("breakerOpen")


@asynccontextmanager
async def watching(world: World, *, left_open: bool) -> AsyncIterator[Breaker]:
    """A controller that has just come up; an earlier leader may have left the breaker open."""
    if left_open:
        status = {"status": {"breakerOpen": True}}
        await world.kube.merge_patch(REMEDIATION_POLICY, POLICY_NAME, status, NAMESPACE, subresource="status")
    controller = world.controller()
    running = asyncio.create_task(controller.watches.run())
    await controller.watches.synced()
    try:
        yield Breaker(controller.state)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_an_open_breaker_of_an_earlier_leader_is_shown_closed_again() -> None:
    world = World()
    async with watching(world, left_open=True) as breaker:
        await breaker.show()
        assert shown(world) is False
        before = len(world.kube.writes)
        await breaker.show()
        assert len(world.kube.writes) == before, "nothing changed"


async def test_a_closed_breaker_is_no_news() -> None:
    world = World()
    async with watching(world, left_open=False) as breaker:
        before = len(world.kube.writes)
        await breaker.show()
        assert len(world.kube.writes) == before


async def test_a_write_that_fails_is_tried_again_at_the_next_look() -> None:
    world = World()
    async with watching(world, left_open=True) as breaker:
        world.kube.fail(UnavailableError("503"), "patch", REMEDIATION_POLICY)
        await breaker.show()
        assert shown(world) is True
        await breaker.show()
        assert shown(world) is False
