"""Answers a request for test messages: sends one over each route from where the real ones are sent.

The request is an annotation on the policy, the answer stands in its status; each request is answered once.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from sparewheel.api.names import POLICY_NAME
from sparewheel.api.remediation_policy import NotifyTest, RouteTest
from sparewheel.api.routes import Audience, Route
from sparewheel.kube.port import REMEDIATION_POLICY
from sparewheel.notify.port import NotifyError
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.routing import address
from sparewheel.remediation.decide.trial import Asked, event, read
from sparewheel.remediation.stages.incident import Ports

log = logging.getLogger("sparewheel.remediation")


@dataclass(slots=True)
class Tester:
    ports: Ports
    state: State

    async def look(self) -> None:
        """Answer the request that the policy carries, unless it is answered."""
        asked = read(self.state.notify_request)
        if asked is None or self.state.notify_answered == self.state.notify_request:
            return
        if not self.ports.leading():
            return
        text = self.state.notify_request
        policy = self.state.policy_spec
        wanted = [route for route in policy.routes if asked.route in {"", route.name}]
        results = list(await asyncio.gather(*(self._try(asked, route) for route in wanted)))
        if not wanted:
            named = ", ".join(route.name for route in policy.routes) or "none"
            results = [RouteTest(route=asked.route, error=f"there is no such route; the routes are: {named}")]
        answer = NotifyTest(request=text, finished_at=self.ports.clock.now(), results=results)
        status = {"notifyTest": answer.model_dump(mode="json", by_alias=True, exclude_none=True)}
        await self.ports.kube.merge_patch(
            REMEDIATION_POLICY, POLICY_NAME, {"status": status}, self.state.namespace, subresource="status"
        )
        self.state.notify_answered = text
        log.info("event=notify_test routes=%d delivered=%d", len(results), sum(one.delivered for one in results))

    async def _try(self, asked: Asked, route: Route) -> RouteTest:
        result = RouteTest(route=route.name, kind=route.kind)
        if route.audience is Audience.OWNER:
            if not asked.user:
                result.error = "is for owners; name one with --user"
                return result
            if not address(route, self.state.policy_spec.people, asked.user):
                result.error = f"user {asked.user} has no address on it; give one under users, or owner_address"
                return result
        try:
            await self.ports.notifier.send(
                route.name, event(asked, route, self.ports.clock.now()), f"test/{asked.identity}/{route.name}"
            )
        except NotifyError as error:
            result.error = str(error)
            return result
        result.delivered = True
        return result
