"""The breaker's state in the policy: also when another controller left it there, and never in the way of the sweep."""

from __future__ import annotations

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


async def leave_open(world: World) -> None:
    """An earlier leader saw it open, and ended."""
    await world.kube.merge_patch(
        REMEDIATION_POLICY, POLICY_NAME, {"status": {"breakerOpen": True}}, NAMESPACE, subresource="status"
    )


async def test_an_open_breaker_of_an_earlier_leader_is_shown_closed_again() -> None:
    world = World()
    await leave_open(world)
    breaker = Breaker(world.controller().state)
    await breaker.show()
    assert shown(world) is False
    before = len(world.kube.writes)
    await breaker.show()
    assert len(world.kube.writes) == before, "nothing changed"


async def test_a_write_that_fails_is_tried_again_at_the_next_look() -> None:
    world = World()
    await leave_open(world)
    breaker = Breaker(world.controller().state)
    world.kube.fail(UnavailableError("503"), "patch", REMEDIATION_POLICY)
    await breaker.show()
    assert shown(world) is True
    await breaker.show()
    assert shown(world) is False
