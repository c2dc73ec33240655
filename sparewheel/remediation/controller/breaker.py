"""Shows in the policy's status whether the breaker is open, for people; each fence decides by the records."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sparewheel.api.base import format_time
from sparewheel.api.names import POLICY_NAME
from sparewheel.kube.port import REMEDIATION_POLICY, Json, KubeError
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.budget import fenced_within

log = logging.getLogger("sparewheel.remediation")


@dataclass(slots=True)
class Breaker:
    state: State

    async def show(self) -> None:
        """Write the state when the policy shows another. Best effort, tried again at the next look."""
        policy, now = self.state.policy_spec, self.state.clock.now()
        fenced = fenced_within(await self.state.incidents(), now, policy.fenced_window_seconds)
        is_open = len(fenced) >= policy.max_fenced_nodes
        if is_open == self.state.breaker_shown:
            return
        text = f"{len(fenced)} of {policy.max_fenced_nodes} nodes fenced within {policy.fenced_window_seconds} s"
        status: Json = {
            "breakerOpen": is_open,
            "breakerSince": format_time(now) if is_open else None,
            "message": f"{text}: further nodes are only drained" if is_open else "",
        }
        try:
            await self.state.kube.merge_patch(
                REMEDIATION_POLICY, POLICY_NAME, {"status": status}, self.state.namespace, subresource="status"
            )
        except KubeError as error:
            log.info("event=breaker_not_shown error=%s", error)
            return
        self.state.breaker_shown = is_open
