"""Requests to the Kubernetes in memory, as tests see them, and which of them fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sparewheel.kube.port import Json, Resource

Verb = Literal["get", "list", "watch", "create", "replace", "patch", "delete", "evict"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as the fault hooks and the tests see it."""

    verb: Verb
    resource: Resource
    name: str
    namespace: str | None = None
    subresource: str | None = None
    body: Json | None = None

    @property
    def writes(self) -> bool:
        return self.verb not in {"get", "list", "watch"}


@dataclass(slots=True)
class FaultRule:
    """Raise ``error`` at the next ``times`` matching calls, before or after they took effect."""

    error: BaseException
    verb: Verb | None = None
    resource: Resource | None = None
    name: str | None = None
    when: Literal["before", "after"] = "before"
    times: int = 1

    def matches(self, call: Call, when: str) -> bool:
        return (
            self.times > 0
            and self.when == when
            and self.verb in {None, call.verb}
            and self.resource in {None, call.resource}
            and self.name in {None, call.name}
        )


def raise_first(rules: Iterable[FaultRule], call: Call, when: str) -> None:
    """The error of the first rule that matches."""
    for rule in rules:
        if rule.matches(call, when):
            rule.times -= 1
            raise rule.error
